// Whole fleets in simulated time: with or without faults every invariant holds, and a seed says all that happens.

import { expect, test } from "vitest";
import { newSha256 } from "../../../src/distributed/node/outbox.node.js";
import { FAULT_NAMES, parseFaults, simulateFleet } from "../../../src/distributed/simulate/index.js";

const small = { workers: 4, rounds: 5, newHasher: newSha256 };

test("without faults nothing is lost, refused or spoiled", async () => {
  const report = await simulateFleet({ ...small, seed: 1, faults: [] });
  expect(report.violations).toEqual([]);
  expect(report.versions).toBeGreaterThanOrEqual(5);
  expect(report.lostSteps).toBe(0);
  expect(report.injected).toEqual({});
});

test("the same seed gives the same events, another one others", async () => {
  const [a, b, c] = [7, 7, 8].map((seed) => simulateFleet({ ...small, seed }));
  expect(await a).toEqual(await b);
  expect((await c!).logSha256).not.toBe((await a!).logSha256);
});

test("faults have names", () => {
  expect(parseFaults("all")).toEqual(FAULT_NAMES);
  expect(parseFaults("none")).toEqual([]);
  expect(parseFaults("lost, delay")).toEqual(["delay", "lost"]);
  expect(() => parseFaults("gremlins")).toThrow(/no fault "gremlins"/);
});
