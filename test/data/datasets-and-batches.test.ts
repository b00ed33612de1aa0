import { describe, expect, it } from "vitest";
import {
  buildDataloader,
  collateCausal,
  createDataLoader,
  type Dataset,
  type LoadedBatch,
  type Sample,
  validationBatches,
} from "../../src/data/index.js";
import { numberedDataset, rowsOf, samplesOf, take } from "./helpers.js";

const sample = (inputIds: number[], labels: number[] = inputIds): Sample => ({
  inputIds: Int32Array.from(inputIds),
  labels: Int32Array.from(labels),
});

function datasetOf(samples: readonly Sample[]): Dataset {
  return { length: samples.length, get: (index) => samples[index]!, describe: () => ({ kind: "list" }) };
}

const config = { vocabSize: 10, blockSize: 3, microBatchSize: 2 };

describe("collateCausal", () => {
  it("pads on the right to the longest sample and counts what is real", () => {
    expect(collateCausal([sample([1], [2]), sample([3, 4, 5], [4, -100, 6])])).toEqual({
      batch: {
        input_ids: { dtype: "int32", shape: [2, 3], data: Int32Array.of(1, 0, 0, 3, 4, 5) },
        labels: { dtype: "int32", shape: [2, 3], data: Int32Array.of(2, -100, -100, 4, -100, 6) },
        attention_mask: { dtype: "bool", shape: [2, 3], data: Uint8Array.of(1, 0, 0, 1, 1, 1) },
      },
      samples: 2,
      tokens: 4,
      targetTokens: 3,
    });
  });

  it("gives no mask when nothing is padded", () => {
    expect(Object.keys(collateCausal([sample([1, 2]), sample([3, 4])]).batch)).toEqual([
      "input_ids",
      "labels",
    ]);
  });

  it("refuses no samples, and labels of another length", () => {
    expect(() => collateCausal([])).toThrow("Cannot make a batch of no samples.");
    expect(() => collateCausal([sample([1, 2], [1])])).toThrow("has 2 input ids but 1 labels");
  });
});

describe("a dataset of one's own", () => {
  it("wins over the text path and needs no file", async () => {
    const dataset = datasetOf([sample([1, 2]), sample([3])]);
    const { train } = await buildDataloader({ config: { ...config, textPath: "/nowhere" }, dataset });
    expect(rowsOf(await train.next(), "input_ids")).toEqual([
      [1, 2],
      [3, 0],
    ]);
  });

  it("is checked against the vocabulary, with the sample named", async () => {
    const first = async (bad: Sample) => {
      const { train } = await buildDataloader({ config, dataset: datasetOf([sample([1]), bad]) });
      return train.next();
    };
    await expect(first(sample([1, 10]))).rejects.toThrow(
      "Sample 1 of the dataset has inputIds[1] = 10, outside the vocabulary of 10.",
    );
    await expect(first(sample([1, 2], [-100, -1]))).rejects.toThrow("labels[1] = -1");
    await expect(first(sample([-100], [1]))).rejects.toThrow("inputIds[0] = -100");
    await expect(first(sample([1, 2], [1]))).rejects.toThrow("has 2 input ids and 1 labels");
    await expect(first(sample([]))).rejects.toThrow("It needs at least one input id");
    expect((await first(sample([1], [-100]))).targetTokens).toBe(1);
  });

  it("is refused where it is none, and where a sample is none", async () => {
    const build = (dataset: object) => buildDataloader({ config, dataset: dataset as Dataset });
    const get = () => sample([1, 2]);
    const describe = () => ({});
    await expect(build({ length: 2, describe })).rejects.toThrow("get(index) is missing");
    await expect(build({ length: 2, get })).rejects.toThrow("describe() is missing");
    await expect(build({ length: 2.5, get, describe })).rejects.toThrow(
      "must be its number of samples, not 2.5",
    );
    await expect(build({ length: 2, get, describe: () => undefined })).rejects.toThrow("not undefined");

    const first = async (bad: () => unknown) =>
      (await build({ length: 2, get: (i: number) => (i === 1 ? bad() : get()), describe })).train.next();
    const cause = new Error("disk gone");
    const unreadable = { name: "DataError", code: "data.sample_unreadable", details: { index: 1 }, cause };
    await expect(first(() => Promise.reject(cause))).rejects.toMatchObject(unreadable);
    const thrown = first(() => {
      throw cause;
    });
    await expect(thrown).rejects.toMatchObject(unreadable);
    await expect(thrown).rejects.toThrow("Sample 1 of the dataset could not be read: disk gone");
    await expect(first(() => undefined)).rejects.toThrow("both Int32Array, but it is undefined.");
    await expect(first(async () => null)).rejects.toThrow("but it is null.");
    await expect(first(() => ({ inputIds: [1], labels: Int32Array.of(1) }))).rejects.toThrow(
      "but inputIds are of Array and labels are of Int32Array.",
    );
  });

  it("gives its last samples to validation", async () => {
    const built = await buildDataloader({
      config: { ...config, validationFraction: 0.3 },
      dataset: numberedDataset(10),
    });
    const trained = await take(built.train, built.train.batchesPerEpoch);
    expect(trained.flatMap((batch) => rowsOf(batch, "labels")!.flat())).toEqual([0, 1, 2, 3, 4, 5]);
    const held = await samplesOf(built.validation!);
    expect(held.flatMap(({ labels }) => labels)).toEqual([7, 8, 9]);
  });

  it("can hold anything, with a collate function of its own", async () => {
    const points: Dataset<{ x: number[]; y: number }> = {
      length: 4,
      get: (index) => ({ x: [index, index / 2], y: index % 2 }),
      describe: () => ({ kind: "points" }),
    };
    const loader = createDataLoader({
      dataset: points,
      batchSize: 2,
      collate: (samples) => ({
        batch: {
          inputs: { dtype: "float32", shape: [2, 2], data: Float32Array.from(samples.flatMap(({ x }) => x)) },
          labels: { dtype: "int32", shape: [2], data: Int32Array.from(samples, ({ y }) => y) },
        },
        samples: samples.length,
        tokens: samples.length,
        targetTokens: samples.length,
      }),
    });
    const { batch } = await loader.next();
    expect([...batch.inputs!.data]).toEqual([0, 0, 1, 0.5]);
    expect([...batch.labels!.data]).toEqual([0, 1]);
  });
});

describe("validationBatches", () => {
  const held = datasetOf([
    sample([1, 2, 3]),
    sample([4, 5, 6]),
    sample([7, 8, 9]),
    sample([1, 2, 3]),
    sample([5]),
  ]);
  const collect = async (batches: AsyncIterable<LoadedBatch>) => {
    const all: LoadedBatch[] = [];
    for await (const batch of batches) all.push(batch);
    return all;
  };

  it("keeps one shape to the end, with rows that have no targets, and counts only what is real", async () => {
    const batches = await collect(validationBatches(held, 2));
    expect(batches.map(({ batch }) => batch.input_ids!.shape)).toEqual([
      [2, 3],
      [2, 3],
      [2, 3],
    ]);
    expect(batches[2]).toEqual({
      batch: {
        input_ids: { dtype: "int32", shape: [2, 3], data: Int32Array.of(5, 0, 0, 0, 0, 0) },
        labels: { dtype: "int32", shape: [2, 3], data: Int32Array.of(5, -100, -100, -100, -100, -100) },
      },
      samples: 1,
      tokens: 1,
      targetTokens: 1,
      epoch: 0,
    });
    expect(batches.reduce((sum, batch) => sum + batch.targetTokens, 0)).toBe(13);
  });

  it("gives a mask where something is padded, if asked", async () => {
    const batches = await collect(validationBatches(held, 2, { emitMask: true }));
    expect(batches.map((batch) => rowsOf(batch, "attention_mask"))).toEqual([
      undefined,
      undefined,
      [
        [1, 0, 0],
        [0, 0, 0],
      ],
    ]);
  });

  it("stops after maxBatches", async () => {
    expect((await collect(validationBatches(held, 2, { maxBatches: 1 }))).length).toBe(1);
    expect((await collect(validationBatches(held, 2, { maxBatches: 9 }))).length).toBe(3);
  });
});
