// How much each delta counts, and the numbers that deltas have.

import { describe, expect, test } from "vitest";
import {
  createMaster,
  createWorker,
  EMPTY_LEDGER,
  type MergeInput,
  type MergePolicy,
  type MergeSettings,
  mergeWeights,
  momentumAt,
  NORM_HISTORY,
  ORDERED_FROM,
  pathNumber,
  stepMaster,
  tokenShares,
} from "../../../src/distributed/protocol/index.js";

const delta = (nodeId: string, tokens?: number, norm = 1, age = 0): MergeInput => ({
  nodeId,
  tokens,
  norm,
  age,
});
const plain: MergePolicy = { merge: "tokens", stalenessDiscount: 1, clipFactor: null };

describe("L-08 weights by work done, per node first", () => {
  test("deltas of one node share one factor; nodes' factors add up to 1", () => {
    expect(tokenShares([delta("a", 100), delta("a", 200), delta("b", 100)])).toEqual([0.75, 0.75, 0.25]);
  });

  test("a delta that does not say counts as the median of the others", () => {
    const shares = tokenShares([delta("a", 100), delta("b"), delta("c", 300), delta("d", 200)]);
    expect(shares).toEqual([1 / 8, 2 / 8, 3 / 8, 2 / 8]);
    // Even counts: between the two in the middle. Nonsense counts as unknown.
    expect(tokenShares([delta("a", 100), delta("b", Number.NaN), delta("c", 300)])).toEqual([
      1 / 6,
      2 / 6,
      3 / 6,
    ]);
    expect(tokenShares([delta("a", 100), delta("b", -5), delta("c", 0)])).toEqual([1 / 3, 1 / 3, 1 / 3]);
  });

  test("if none says, all nodes count the same, however many deltas they have", () => {
    expect(tokenShares([delta("a"), delta("a"), delta("b")])).toEqual([0.5, 0.5, 0.5]);
  });

  test("under python each file counts the same", () => {
    const policy: MergePolicy = { merge: "python", stalenessDiscount: 0.5, clipFactor: 1 };
    const { weights } = mergeWeights([delta("a", 1, 1, 3), delta("a", 99), delta("b", 5, 1e6)], [1], policy);
    expect(weights).toEqual([1 / 3, 1 / 3, 1 / 3]);
  });
});

test("L-07 each version of age multiplies by the discount, without making up for it elsewhere", () => {
  const { weights } = mergeWeights([delta("a", 1, 1, 0), delta("b", 1, 1, 2)], [], {
    ...plain,
    stalenessDiscount: 0.5,
  });
  expect(weights).toEqual([0.5, 0.125]);
});

describe("L-06 L-95 clipping", () => {
  const clipped: MergePolicy = { ...plain, clipFactor: 3 };

  test("a longer delta is shortened to a multiple of the running median, and remembered as that", () => {
    const { weights, norms, clipNorm } = mergeWeights(
      [delta("a", 1, 2), delta("b", 1, 2000)],
      [1, 2, 2],
      clipped,
    );
    expect(clipNorm).toBe(6);
    expect(weights).toEqual([0.5, 0.5 * (6 / 2000)]);
    expect(norms).toEqual([1, 2, 2, 2, 6]);
  });

  test("works in the first round of two, where one cannot excuse itself", () => {
    expect(mergeWeights([delta("a", 1, 1000), delta("b", 1, 1)], [], clipped).weights).toEqual([
      0.5 * (3 / 1000),
      0.5,
    ]);
    expect(mergeWeights([delta("a", 1, 1000)], [], clipped).weights).toEqual([1]);
  });

  test("one that always is too long does not become usual", () => {
    let norms: readonly number[] = [];
    for (let round = 0; round < 100; round++) {
      const merge = mergeWeights([delta("a", 1, 1), delta("b", 1, 1), delta("c", 1, 1000)], norms, clipped);
      norms = merge.norms;
      expect(merge.clipNorm).toBe(3);
    }
    expect(norms).toHaveLength(NORM_HISTORY);
  });
});

test("L-95 momentum starts at 0 and grows in equal steps over the first rounds", () => {
  expect([1, 2, 3, 4, 5, 500].map((outerStep) => momentumAt(outerStep, 0.8, 4))).toEqual([
    0,
    0.2,
    0.4,
    0.8 * 0.75,
    0.8,
    0.8,
  ]);
  expect(momentumAt(1, 0.9, 0)).toBe(0.9);
});

describe("L-01 numbers of deltas", () => {
  test("grow with the sequence, and differ between nodes and lives", () => {
    const [one, two] = [pathNumber(1, "a/x"), pathNumber(2, "a/x")];
    expect(two - one).toBe(ORDERED_FROM);
    const salts = Array.from({ length: 2000 }, (_, i) => `node-${i}/${i % 7}`);
    expect(new Set(salts.map((salt) => pathNumber(1, salt))).size).toBe(salts.length);
    expect(salts.every((salt) => pathNumber(1, salt) >= ORDERED_FROM)).toBe(true);
  });

  test("stay below 2^53", () => {
    expect(pathNumber(2 ** 23 - 1, "a")).toBeLessThan(2 ** 53);
    for (const sequence of [2 ** 23, 0, -1, 1.5]) {
      expect(() => pathNumber(sequence, "a")).toThrow(
        expect.objectContaining({ code: "protocol.numbers_exhausted" }),
      );
    }
  });
});

describe("settings and events that cannot be", () => {
  const good: MergeSettings = {
    ...plain,
    outerLr: 0.7,
    outerMomentum: 0.9,
    momentumWarmupRounds: 4,
    stalenessLimit: 4,
    quorum: 1,
    graceMs: 0,
    keepVersions: 2,
  };
  const start = { outerStep: 3, ledger: EMPTY_LEDGER, norms: [] };

  test.each([
    { outerLr: 0 },
    { outerLr: Number.NaN },
    { outerMomentum: 1 },
    { momentumWarmupRounds: -1 },
    { stalenessLimit: -1 },
    { stalenessDiscount: 0 },
    { stalenessDiscount: 1.1 },
    { clipFactor: 0 },
    { quorum: 0 },
    { graceMs: Number.NaN },
    { keepVersions: -1 },
  ])("master settings %o are refused", (wrong) => {
    expect(() => createMaster({ ...good, ...wrong }, start)).toThrow(
      expect.objectContaining({
        code: "protocol.invalid_setting",
        message: expect.stringContaining(Object.keys(wrong)[0]!),
      }),
    );
  });

  test("worker settings below 1 are refused", () => {
    expect(() => createWorker({ nodeId: "a", innerSteps: 0, maxQueued: 1 })).toThrow("innerSteps is 0");
    expect(() => createWorker({ nodeId: "a", innerSteps: 1, maxQueued: 0.5 })).toThrow("maxQueued is 0.5");
  });

  test("L-29 a version that nobody planned is not taken over", () => {
    const master = createMaster(good, start);
    expect(() => stepMaster(master, { type: "published", outerStep: 4 })).toThrow(
      expect.objectContaining({ code: "protocol.out_of_order" }),
    );
  });
});
