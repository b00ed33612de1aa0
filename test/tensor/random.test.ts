// Dropout's random bits: pinned values (other backends must give the same) and statistics.

import { describe, expect, test } from "vitest";
import { evaluate } from "../../src/tensor/backends/reference/interpreter.js";
import { dropoutMask } from "../../src/tensor/functions/fused.js";
import { dropoutBits, dropoutKeys, dropoutScale, dropoutThreshold } from "../../src/tensor/random.js";
import { constant } from "../../src/tensor/tensor.js";

const count = 1 << 16;

function bits(seed: number, step: number, site: number): Uint32Array {
  const [k0, k1] = dropoutKeys(seed, step, site);
  return Uint32Array.from({ length: count }, (_, i) => dropoutBits(k0, k1, i));
}

/** Correlation of two streams as if drawn uniformly, in units of its standard deviation (1/√n). */
function correlation(a: Uint32Array, b: Uint32Array): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += (a[i]! / 2 ** 32 - 0.5) * (b[i]! / 2 ** 32 - 0.5);
  return (12 * sum) / Math.sqrt(a.length);
}

/** Chi-square over 256 bins, in units of its standard deviation from its mean (255 degrees of freedom). */
function byteDeviation(values: Uint32Array, shift: number): number {
  const bins = new Float64Array(256);
  for (const v of values) bins[(v >>> shift) & 255]!++;
  const expected = values.length / 256;
  const chi = bins.reduce((sum, n) => sum + (n - expected) ** 2 / expected, 0);
  return (chi - 255) / Math.sqrt(2 * 255);
}

test("bits are pinned", () => {
  expect(dropoutKeys(0, 0, 0)).toEqual([3253608193, 2632211108]);
  expect(dropoutKeys(-1, 7, 3)).toEqual([99266018, 1340081993]);
  expect([0, 1, 2, 0xffffffff].map((i) => dropoutBits(1, 2, i))).toEqual([
    1837664274, 587420211, 1565781152, 1633582471,
  ]);
});

test("thresholds and scales", () => {
  expect(dropoutThreshold(0.5)).toBe(2 ** 31);
  expect(dropoutThreshold(0.1)).toBe(429496730);
  expect(dropoutThreshold(1 - 2 ** -40)).toBe(2 ** 32 - 1);
  expect(dropoutScale(0.1)).toBe(Math.fround(1 / 0.9));
});

describe.each([
  [0, 0, 0],
  [1, 0, 0],
  [42, 1000, 7],
  [-1, 2 ** 31 - 1, 3],
])("stream of seed %d, step %d, site %d", (seed, step, site) => {
  const stream = bits(seed, step, site);

  test("is uniform in each byte and on average", () => {
    for (const shift of [0, 8, 16, 24]) expect(Math.abs(byteDeviation(stream, shift))).toBeLessThan(4.5);
    const mean = stream.reduce((sum, v) => sum + v / 2 ** 32, 0) / count;
    expect(Math.abs(mean - 0.5) * Math.sqrt(12 * count)).toBeLessThan(4.5);
  });

  test("is uncorrelated with its neighbours", () => {
    for (const lag of [1, 2, 4, 16, 64, 256, 4096])
      expect(Math.abs(correlation(stream.subarray(0, count - lag), stream.subarray(lag)))).toBeLessThan(4.5);
    // Elements whose index differs in one bit: each pair counts twice.
    for (let bit = 1; bit < count; bit <<= 1)
      expect(
        Math.abs(
          correlation(
            stream,
            stream.map((_, i) => stream[i ^ bit]!),
          ),
        ),
      ).toBeLessThan(4.5 * Math.SQRT2);
  });

  test("is uncorrelated with the streams of other seeds, steps and sites", () => {
    for (const other of [
      [seed + 1, step, site],
      [seed, step ^ 1, site],
      [seed, step, site + 1],
      [seed ^ (2 ** 16), step, site],
    ] as const)
      expect(Math.abs(correlation(stream, bits(...other)))).toBeLessThan(4.5);
  });
});

test("a flipped key or index bit flips about half of the output", () => {
  const rounds = 512;
  for (let bit = 0; bit < 32; bit++) {
    for (const which of [0, 1, 2]) {
      let flips = 0;
      for (let i = 0; i < rounds; i++) {
        const words = [...dropoutKeys(9, i, bit), Math.imul(i, 0x9e3779b1)] as [number, number, number];
        const before = dropoutBits(...words);
        words[which]! ^= 1 << bit;
        let difference = before ^ dropoutBits(...words);
        for (; difference; difference &= difference - 1) flips++;
      }
      expect(flips / (32 * rounds)).toBeGreaterThan(0.45);
      expect(flips / (32 * rounds)).toBeLessThan(0.6);
    }
  }
});

test("a mask keeps the right share and scales it", () => {
  const rng = constant({ dtype: "int32", shape: [2], data: Int32Array.of(5, 17) });
  const mask = evaluate(dropoutMask(rng, [200, 300], 0.2, 3));
  const kept = mask.data.filter((v) => v !== 0);
  expect(new Set(kept)).toEqual(new Set([Math.fround(1 / 0.8)]));
  expect(Math.abs(kept.length / 60_000 - 0.8)).toBeLessThan(0.008);
  expect(mask.dtype).toBe("float32");
});
