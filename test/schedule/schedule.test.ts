// Learning-rate schedules: the published vectors of the Python system, our own end points, and what must hold
// for any options.

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { buildSchedule, type ScheduleOptions } from "../../src/schedule/index.js";

const factors = (options: Partial<ScheduleOptions>, count: number) => {
  const schedule = buildSchedule({
    name: "cosine",
    warmupSteps: 0,
    horizon: 10,
    minLrRatio: 0.1,
    pythonEndpoints: false,
    ...options,
  });
  return Array.from({ length: count }, (_, done) => schedule(done));
};
const rounded = (values: readonly number[]) => values.map((value) => Number(value.toFixed(6)));

describe("cosine with Python's end points", () => {
  it.each([
    { warmupSteps: 1, horizon: 4, expected: [1, 1, 0.775, 0.325, 0.1, 0.1] },
    {
      warmupSteps: 2,
      horizon: 10,
      expected: [0.5, 1, 1, 0.965746, 0.868198, 0.722208, 0.55, 0.377792, 0.231802, 0.134254, 0.1, 0.1],
    },
  ])("warm-up $warmupSteps of $horizon", ({ expected, ...options }) => {
    expect(rounded(factors({ ...options, pythonEndpoints: true }, expected.length))).toEqual(expected);
  });
});

describe("cosine", () => {
  it.each([
    { warmupSteps: 0, horizon: 4, expected: [1, 0.775, 0.325, 0.1, 0.1] },
    { warmupSteps: 1, horizon: 4, expected: [1, 0.775, 0.325, 0.1, 0.1] },
    { warmupSteps: 2, horizon: 4, expected: [0.5, 1, 0.55, 0.1, 0.1] },
    { warmupSteps: 4, horizon: 4, expected: [0.25, 0.5, 0.75, 1, 0.1] },
  ])("warm-up $warmupSteps of $horizon ends at the floor, exactly", ({ expected, ...options }) => {
    expect(rounded(factors(options, expected.length))).toEqual(expected);
  });

  it("hits its end points without rounding", () => {
    const values = factors({ warmupSteps: 60, horizon: 1700, minLrRatio: 0.05 }, 1701);
    expect(values[59]).toBe(1);
    expect(values[1699]).toBe(0.05);
    expect(values[1700]).toBe(0.05);
    expect(values.filter((value) => value === 1)).toHaveLength(1);
    expect(values.slice(60).filter((value) => value === 0.05)).toHaveLength(2);
  });
});

describe("constant", () => {
  it("rises to the full rate and stays", () => {
    expect(factors({ name: "constant", warmupSteps: 4 }, 8)).toEqual([0.25, 0.5, 0.75, 1, 1, 1, 1, 1]);
    expect(factors({ name: "constant" }, 3)).toEqual([1, 1, 1]);
  });
});

describe("any schedule", () => {
  const options = fc.record({
    name: fc.constantFrom("cosine" as const, "constant" as const),
    warmupSteps: fc.nat(40),
    horizon: fc.integer({ min: 1, max: 120 }),
    minLrRatio: fc.double({ min: 0, max: 1, noNaN: true }),
    pythonEndpoints: fc.boolean(),
  });
  const property = (check: (o: ScheduleOptions, values: readonly number[]) => void) =>
    fc.assert(
      fc.property(options, (o) => check(o, factors(o, o.warmupSteps + o.horizon + 5))),
      { seed: 20260101, numRuns: 300 },
    );

  it("rises in equal steps while it warms up, and never again", () =>
    property(({ warmupSteps: W }, values) => {
      for (let done = 0; done < W; done++) expect(values[done]).toBeCloseTo((done + 1) / W, 12);
      for (let done = Math.max(1, W); done < values.length; done++)
        expect(values[done]!).toBeLessThanOrEqual(values[done - 1]! + 1e-12);
    }));

  it("stays between its floor and the full rate, and keeps the floor after the horizon", () =>
    property(({ name, warmupSteps: W, horizon, minLrRatio }, values) => {
      for (const value of values.slice(W)) {
        expect(value).toBeGreaterThanOrEqual(minLrRatio - 1e-12);
        expect(value).toBeLessThanOrEqual(1);
      }
      const floor = name === "constant" ? 1 : minLrRatio;
      for (const value of values.slice(Math.max(W, horizon) + 1)) expect(value).toBeCloseTo(floor, 12);
    }));

  it("is a function of the step alone", () =>
    property((o, values) => {
      const schedule = buildSchedule(o);
      for (const done of [5, 0, values.length - 1, 5]) expect(schedule(done)).toBe(values[done]);
    }));
});
