// `speedtronic simulate`: the summary for people, a report per line, seeds in a row, and flags that are wrong.

import { describe, expect, it } from "vitest";
import type { SimulationReport } from "../../src/distributed/simulate/index.js";
import { cli } from "./harness.js";

const small = ["simulate", "--workers", "2", "--rounds", "3"];

describe("simulate", () => {
  it("sums up what happened", async () => {
    const { code, out, err } = await cli([...small, "--seed", "3", "--faults", "conflict, throttled"]);
    expect({ code, err }).toEqual({ code: 0, err: "" });
    expect(out).toMatch(/^seed 3: 2 workers, \d+ versions in [\d.]+ simulated minutes\n/);
    expect(out).toMatch(/\n {2}steps +\d+ local steps, 0 lost with processes that died\n/);
    expect(out).toMatch(/\n {2}faults +\d+ conflict, \d+ throttled in \d+ commits\n/);
    expect(out).toMatch(/\n {2}all invariants hold\n$/);
  });

  it("gives one report per line as JSON, and the same for the same seed", async () => {
    const both = await cli([...small, "--seed", "3", "--seeds", "2", "--json"]);
    const second = await cli([...small, "--seed", "4", "--json"]);
    expect([both.code, second.code]).toEqual([0, 0]);
    const reports = both.out
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as SimulationReport);
    expect(reports).toMatchObject([
      { seed: 3, workers: 2, rounds: 3, violations: [] },
      { seed: 4, workers: 2, rounds: 3, violations: [] },
    ]);
    expect(JSON.parse(second.out)).toEqual(reports[1]);
  });

  it.each([
    { args: ["--faults", "gremlins"], message: /no fault "gremlins"; take all, none, or some of delay, / },
    { args: ["--faults", ""], message: /no fault ""/ },
    { args: ["--workers", "0"], message: /Expected a whole number from 1\./ },
    { args: ["--seed", "1.5"], message: /Expected a whole number from 0\./ },
  ])("refuses $args", async ({ args, message }) => {
    const { code, out, err } = await cli([...small, ...args]);
    expect({ code, out }).toEqual({ code: 2, out: "" });
    expect(err).toMatch(message);
  });
});
