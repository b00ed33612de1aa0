import { describe, expect, it } from "vitest";
import { buildDataloader, SyntheticDataset } from "../../src/data/index.js";
import { rowsOf, samplesOf } from "./helpers.js";

const firstTen = (seed: number, index: number, vocabSize: number) => {
  const dataset = new SyntheticDataset({ samples: 4, blockSize: 10, vocabSize, seed });
  return [...dataset.get(index).inputIds];
};

describe("synthetic data", () => {
  it.each([
    [1234, 128, "47 83 38 53 76 116 24 121 15 49"],
    [1235, 128, "75 34 2 111 67 71 35 54 121 104"],
    [1234, 512, "303 211 294 53 204 372 152 505 143 177"],
    [0, 50257, "32487 27591 7093 953 10379 5139 38222 10161 28812"],
  ])("equals PyTorch's CPU generator for seed %i and vocabulary %i", (seed, vocabSize, tokens) => {
    expect(firstTen(seed, 0, vocabSize).join(" ")).toMatch(new RegExp(`^${tokens}`));
  });

  it("seeds sample i with seed + i, modulo 2^32", () => {
    expect(firstTen(1234, 1, 128)).toEqual(firstTen(1235, 0, 128));
    expect(firstTen(-1, 1, 128)).toEqual(firstTen(0, 0, 128));
    expect(firstTen(2 ** 32 - 1, 1, 128)).toEqual(firstTen(0, 0, 128));
  });

  it("labels each input with the next id, whatever was asked for before", () => {
    const dataset = new SyntheticDataset({ samples: 9, blockSize: 700, vocabSize: 64, seed: 5 });
    const { inputIds, labels } = dataset.get(3);
    expect(inputIds.length).toBe(700);
    expect(labels.length).toBe(700);
    expect(inputIds.slice(1)).toEqual(labels.slice(0, -1));
    dataset.get(8);
    expect(dataset.get(3)).toEqual({ inputIds, labels });
  });

  it("can mix seed and index, so that neighbouring seeds share no sample", async () => {
    const mixed = (seed: number) =>
      new SyntheticDataset({ samples: 20, blockSize: 16, vocabSize: 100, seed, seeding: "mixed" });
    const seen = new Set<string>();
    for (const seed of [-1, 0, 1, 2 ** 32]) {
      for (const sample of await samplesOf(mixed(seed))) seen.add(sample.inputIds.join());
    }
    expect(seen.size).toBe(80);
    expect(mixed(1).get(7)).toEqual(mixed(1).get(7));
    expect(Math.max(...mixed(1).get(7).inputIds)).toBeLessThan(100);
  });

  it("is what the loader serves by default, with the historical seeds unless told otherwise", async () => {
    const config = { vocabSize: 128, blockSize: 4, microBatchSize: 2, seed: 1234, numTokens: 3 };
    const { train } = await buildDataloader({ config });
    const loaded = await train.next();
    expect(rowsOf(loaded, "input_ids")).toEqual([
      [47, 83, 38, 53],
      [75, 34, 2, 111],
    ]);
    expect(rowsOf(loaded, "labels")).toEqual([
      [83, 38, 53, 76],
      [34, 2, 111, 67],
    ]);

    const other = await buildDataloader({ config: { ...config, compat: { syntheticSeeds: false } } });
    expect(rowsOf(await other.train.next(), "input_ids")).not.toEqual(rowsOf(loaded, "input_ids"));
  });
});
