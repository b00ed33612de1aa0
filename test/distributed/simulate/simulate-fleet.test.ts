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

test("L-105: with all faults nothing is violated, for ten seeds", async () => {
  const found = [];
  const fates = { applied: 0, rejected: 0, stale: 0 };
  for (let seed = 1; seed <= 10; seed++) {
    const { violations, fates: counts } = await simulateFleet({ ...small, seed });
    for (const violation of violations) found.push({ seed, ...violation });
    for (const fate of ["applied", "rejected", "stale"] as const) fates[fate] += counts[fate] ?? 0;
  }
  expect(found).toEqual([]);
  // The faults were there.
  expect(Object.values(fates).every((count) => count > 0)).toBe(true);
});

test("a node that stopped without an answer sends what it kept before the run is judged", async () => {
  const { violations, fates } = await simulateFleet({
    workers: 8,
    rounds: 20,
    seed: 29,
    newHasher: newSha256,
  });
  expect(violations).toEqual([]);
  expect(fates.undecided).toBeUndefined();
});

test("faults have names", () => {
  expect(parseFaults("all")).toEqual(FAULT_NAMES);
  expect(parseFaults("none")).toEqual([]);
  expect(parseFaults("lost, delay")).toEqual(["delay", "lost"]);
  expect(() => parseFaults("gremlins")).toThrow(/no fault "gremlins"/);
});
