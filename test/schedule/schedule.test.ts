// Learning-rate schedules: the published vectors of the Python system, our own end points, and what must hold
// for any options.

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { buildSchedule, RunSchedule, type ScheduleOptions, scheduleNames } from "../../src/schedule/index.js";

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

// Computed by hand from the formulas: m + (1 - m)·shape(p), and √(W/n).
describe("linear", () => {
  it.each([
    { warmupSteps: 0, horizon: 5, minLrRatio: 0, expected: [1, 0.75, 0.5, 0.25, 0, 0] },
    { warmupSteps: 2, horizon: 5, minLrRatio: 0.4, expected: [0.5, 1, 0.8, 0.6, 0.4, 0.4] },
  ])("warm-up $warmupSteps of $horizon", ({ expected, ...options }) => {
    expect(rounded(factors({ name: "linear", ...options }, expected.length))).toEqual(expected);
  });
});

describe("inverse square root", () => {
  it("falls with the root of the step from the end of the warm-up", () => {
    const values = factors({ name: "inverse_sqrt", warmupSteps: 4, minLrRatio: 0.2 }, 128);
    expect(rounded(values.slice(0, 6))).toEqual([0.25, 0.5, 0.75, 1, 0.894427, 0.816497]);
    expect([values[15], values[63], values[99], values[127]]).toEqual([0.5, 0.25, 0.2, 0.2]);
  });

  it("begins at the full rate without a warm-up", () => {
    expect(factors({ name: "inverse_sqrt", minLrRatio: 0 }, 9)).toEqual(
      [1, 2, 3, 4, 5, 6, 7, 8, 9].map((n) => Math.sqrt(1 / n)),
    );
  });
});

describe("warm-up, stable, decay", () => {
  it.each([
    { shape: "linear" as const, expected: [0.5, 1, 1, 1, 1, 1, 0.775, 0.55, 0.325, 0.1, 0.1] },
    { shape: "cosine" as const, expected: [0.5, 1, 1, 1, 1, 1, 0.868198, 0.55, 0.231802, 0.1, 0.1] },
    { shape: "sqrt" as const, expected: [0.5, 1, 1, 1, 1, 1, 0.55, 0.363604, 0.220577, 0.1, 0.1] },
  ])("decays over the last updates, $shape", ({ shape: decayShape, expected }) => {
    const options = { name: "wsd" as const, warmupSteps: 2, decaySteps: 4, decayShape };
    expect(rounded(factors(options, expected.length))).toEqual(expected);
  });

  it("decays over a fifth of the run unless told otherwise, and never into the warm-up", () => {
    expect(rounded(factors({ name: "wsd", horizon: 10 }, 10))).toEqual([1, 1, 1, 1, 1, 1, 1, 1, 0.55, 0.1]);
    const long = { name: "wsd" as const, warmupSteps: 7, decaySteps: 100 };
    expect(rounded(factors(long, 10)).slice(6)).toEqual([1, 0.7, 0.4, 0.1]);
  });
});

describe("other curves than the Python system's", () => {
  it.each(["linear", "inverse_sqrt", "wsd", "constant"] as const)(
    "%s has one form, whatever the switch says",
    (name) => {
      const both = [true, false].map((pythonEndpoints) =>
        factors({ name, warmupSteps: 2, pythonEndpoints }, 12),
      );
      expect(both[0]).toEqual(both[1]);
    },
  );
});

describe("a run that is resumed with another end", () => {
  const options = fc.record({
    name: fc.constantFrom(...scheduleNames),
    warmupSteps: fc.nat(30),
    minLrRatio: fc.double({ min: 0, max: 0.9, noNaN: true }),
    decayShape: fc.constantFrom("linear" as const, "cosine" as const, "sqrt" as const),
    before: fc.integer({ min: 2, max: 100 }),
    now: fc.integer({ min: 2, max: 100 }),
    step: fc.integer({ min: 1, max: 98 }),
    movedEnd: fc.constantFrom("continue" as const, "rewarm" as const),
  });
  type Case = typeof options extends fc.Arbitrary<infer T> ? T : never;
  const resumed = ({ before, now, step, movedEnd, ...rest }: Case) => {
    const common = { ...rest, pythonEndpoints: false };
    const first = new RunSchedule({ ...common, horizon: before }, movedEnd);
    const second = new RunSchedule({ ...common, horizon: now }, movedEnd);
    const note = second.resume(JSON.parse(JSON.stringify(first.save(step))), step);
    return { first, second, note, common };
  };
  const property = (check: (o: Case) => void) =>
    fc.assert(fc.property(options, check), { seed: 20260102, numRuns: 500 });

  it("has no jump there, and ends where the new curve does", () =>
    property((o) => {
      const { first, second } = resumed(o);
      const isOver = o.step >= o.now - 1;
      // Returning takes as long as the warm-up: without one it is a jump.
      const jumps = isOver || (o.movedEnd === "rewarm" && o.warmupSteps === 0);
      if (!jumps) expect(second.at(o.step)).toBeCloseTo(first.at(o.step), 12);
      const last = Math.max(o.now - 1, o.warmupSteps, o.step + 1);
      const floor = { constant: 1, inverse_sqrt: second.at(last) } as Partial<Record<string, number>>;
      expect(second.at(last)).toBeCloseTo(floor[o.name] ?? o.minLrRatio, 12);
    }));

  it("stays between floor and peak, and never rises after the warm-up when it goes on", () =>
    property((o) => {
      const { second } = resumed(o);
      const values = Array.from({ length: 100 }, (_, i) => second.at(o.step + i));
      for (const value of values) expect(value).toBeLessThanOrEqual(1 + 1e-12);
      if (o.movedEnd === "rewarm") return;
      const after = values.slice(Math.max(0, o.warmupSteps - o.step));
      for (let i = 1; i < after.length; i++) expect(after[i]!).toBeLessThanOrEqual(after[i - 1]! + 1e-12);
    }));

  it("keeps what it was through further resumes, to the bit", () =>
    property((o) => {
      const { second, common } = resumed(o);
      const later = o.step + 3;
      const third = new RunSchedule({ ...common, horizon: o.now }, o.movedEnd);
      expect(third.resume(JSON.parse(JSON.stringify(second.save(later))), later)).toBeUndefined();
      for (let done = later; done < later + 60; done++) expect(third.at(done)).toBe(second.at(done));
    }));

  it("says so only where an end has moved, and takes another curve at once", () => {
    const common = { warmupSteps: 0, minLrRatio: 0.1, pythonEndpoints: false };
    const cosine = new RunSchedule({ ...common, name: "cosine", horizon: 10 }).save(5);
    const take = (name: ScheduleOptions["name"], horizon: number, saved: unknown = cosine) => {
      const schedule = new RunSchedule({ ...common, name, horizon });
      return { note: schedule.resume(saved, 5), first: schedule.at(5) };
    };
    expect(take("cosine", 10)).toEqual({ note: undefined, first: cosine.factor });
    expect(take("cosine", 20).note).toMatch(
      /^the learning rate decays until step 20 instead of 10: it goes on/,
    );
    expect(take("linear", 20)).toEqual({ note: undefined, first: expect.closeTo(1 - (0.9 * 5) / 19, 12) });
    expect(take("cosine", 4)).toEqual({
      note: "the learning rate decays until step 4 instead of 10: it changes from 0.4719 to 0.1 of its peak",
      first: 0.1,
    });
    for (const nothing of [{}, null, { lr: 1 }, { name: "cosine", horizon: "x", factor: 1 }])
      expect(take("cosine", 20, nothing).note).toBeUndefined();
  });
});

describe("any schedule", () => {
  const options = fc.record({
    name: fc.constantFrom(...scheduleNames),
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
      if (name === "inverse_sqrt") return;
      const floor = name === "constant" ? 1 : minLrRatio;
      for (const value of values.slice(Math.max(W, horizon) + 1)) expect(value).toBeCloseTo(floor, 12);
    }));

  it("is a function of the step alone", () =>
    property((o, values) => {
      const schedule = buildSchedule(o);
      for (const done of [5, 0, values.length - 1, 5]) expect(schedule(done)).toBe(values[done]);
    }));
});
