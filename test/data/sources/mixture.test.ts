import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ChainedDataset, MixedDataset } from "../../../src/data/mixture.js";
import type { Dataset } from "../../../src/data/types.js";
import { numberedDataset } from "../helpers.js";

/** Samples whose one id is `first` and up. */
function from(first: number, length: number): Dataset {
  const numbered = numberedDataset(length);
  return {
    ...numbered,
    get: async (index) => {
      const { inputIds, labels } = await numbered.get(index);
      return { inputIds: inputIds.map((id) => id + first), labels };
    },
  };
}

async function idsOf(dataset: Dataset): Promise<number[]> {
  const ids = [];
  for (let i = 0; i < dataset.length; i++) ids.push((await dataset.get(i)).inputIds[0]!);
  return ids;
}

describe("datasets one after the other", () => {
  it("are all samples in order", async () => {
    const chain = new ChainedDataset([from(0, 2), from(10, 0), from(20, 3)]);
    expect(await idsOf(chain)).toEqual([0, 1, 20, 21, 22]);
  });
});

describe("a mixture", () => {
  it("has each dataset in proportion to its weight, spread evenly", async () => {
    const mixed = new MixedDataset([
      { dataset: from(0, 300), weight: 3 },
      { dataset: from(1000, 50), weight: 1 },
    ]);
    const ids = await idsOf(mixed);
    expect(mixed.length).toBe(400);
    for (let start = 0; start < 400; start += 40) {
      const part = ids.slice(start, start + 40);
      expect(part.filter((id) => id >= 1000)).toHaveLength(10);
    }
    // The large one once, in order; the small one twice.
    expect(ids.filter((id) => id < 1000)).toEqual(Array.from({ length: 300 }, (_, i) => i));
    expect(ids.filter((id) => id >= 1000)).toEqual(Array.from({ length: 100 }, (_, i) => 1000 + (i % 50)));
  });

  it("shows every sample of every dataset, whatever sizes and weights", async () => {
    const part = fc.record({
      length: fc.integer({ min: 1, max: 40 }),
      weight: fc.integer({ min: 1, max: 9 }),
    });
    const property = fc.asyncProperty(fc.array(part, { minLength: 1, maxLength: 5 }), async (parts) => {
      const mixed = new MixedDataset(
        parts.map(({ length, weight }, i) => ({ dataset: from(1000 * i, length), weight })),
      );
      const ids = await idsOf(mixed);
      const all = parts.flatMap(({ length }, i) => Array.from({ length }, (_, j) => 1000 * i + j));
      expect([...new Set(ids)].sort((a, b) => a - b)).toEqual(all);
      const sum = parts.reduce((total, { weight }) => total + weight, 0);
      for (const [i, { length, weight }] of parts.entries()) {
        const share = ids.filter((id) => Math.floor(id / 1000) === i).length;
        expect(share).toBeGreaterThanOrEqual(length);
        expect(Math.abs(share - (mixed.length * weight) / sum)).toBeLessThanOrEqual(parts.length);
      }
    });
    await fc.assert(property, { numRuns: 60 });
  });

  it("finds samples beyond the numbers that doubles can multiply", async () => {
    const length = 2 ** 40;
    const huge = {
      ...from(0, 1),
      length,
      get: async (i: number) => ({ inputIds: Int32Array.of(i % 1000), labels: Int32Array.of(0) }),
    };
    const mixed = new MixedDataset([
      { dataset: huge, weight: 1 },
      { dataset: huge, weight: 1 },
    ]);
    expect(mixed.length).toBe(2 ** 41);
    const pairs = await Promise.all([2 ** 41 - 2, 2 ** 41 - 1].map((i) => mixed.get(i)));
    // Both halves end with their own last sample.
    expect(pairs.map(({ inputIds }) => inputIds[0])).toEqual([(length - 1) % 1000, (length - 1) % 1000]);
  });
});
