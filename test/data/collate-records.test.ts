// Samples of any kind as batches: stacked, padded or listed by rules per field, nothing dropped, nothing guessed.

import { collateRecords, type RecordSample } from "speedtronic/data";
import { describe, expect, it } from "vitest";
import type { DataError } from "../../src/util/errors.js";
import { errorOf } from "../nn/helpers.js";

const listed = ({ batch }: ReturnType<typeof collateRecords>) =>
  Object.fromEntries(
    Object.entries(batch).map(([name, { dtype, shape, data }]) => [name, [dtype, shape, [...data]]]),
  );

describe("fields", () => {
  it("of equal shapes are stacked, whatever they are", () => {
    const image = (value: number) => ({
      dtype: "float32" as const,
      shape: [1, 2],
      data: Float32Array.of(value, value),
    });
    const collated = collateRecords([
      { image: image(1), weight: 0.5, ids: Int32Array.of(3, 4), isReal: true, row: [1, 2.5] },
      { image: image(2), weight: 2, ids: Int32Array.of(5, 6), isReal: false, row: [3, 4] },
    ]);
    expect(listed(collated)).toEqual({
      image: ["float32", [2, 1, 2], [1, 1, 2, 2]],
      weight: ["float32", [2], [0.5, 2]],
      ids: ["int32", [2, 2], [3, 4, 5, 6]],
      isReal: ["bool", [2], [1, 0]],
      row: ["float32", [2, 2], [1, 2.5, 3, 4]],
    });
    expect(collated).toMatchObject({ samples: 2, tokens: 2, targetTokens: 2 });
    expect("lists" in collated).toBe(false);
  });

  it("that are no numbers are kept beside the batch", () => {
    const { batch, lists } = collateRecords([
      { x: 1, name: "a", meta: { from: 1 } },
      { x: 2, name: "b", meta: { from: 2 } },
    ]);
    expect(Object.keys(batch)).toEqual(["x"]);
    expect(lists).toEqual({ name: ["a", "b"], meta: [{ from: 1 }, { from: 2 }] });
  });

  it("follow the rules that are given for them", () => {
    const collated = collateRecords(
      [
        { points: { dtype: "float32", shape: [1, 2], data: Float32Array.of(1, 2) }, tag: 7 },
        { points: { dtype: "float32", shape: [2, 2], data: Float32Array.of(3, 4, 5, 6) }, tag: 8 },
      ],
      { points: { how: "pad", value: -1, mask: "isPoint" }, tag: { how: "list" } },
    );
    expect(listed(collated)).toEqual({
      points: ["float32", [2, 2, 2], [1, 2, -1, -1, 3, 4, 5, 6]],
      isPoint: ["bool", [2, 2], [1, 0, 1, 1]],
    });
    expect(collated.lists).toEqual({ tag: [7, 8] });
  });
});

describe("language samples", () => {
  const sample = (length: number, more: RecordSample = {}): RecordSample => ({
    inputIds: Int32Array.from({ length }, (_, i) => i + 1),
    labels: Int32Array.from({ length }, (_, i) => i + 2),
    ...more,
  });

  it("are padded with what counts for nothing, with a mask where something is padded", () => {
    const collated = collateRecords([sample(3), sample(1)]);
    expect(listed(collated)).toEqual({
      input_ids: ["int32", [2, 3], [1, 2, 3, 1, 0, 0]],
      labels: ["int32", [2, 3], [2, 3, 4, 2, -100, -100]],
      attention_mask: ["bool", [2, 3], [1, 1, 1, 1, 0, 0]],
    });
    expect(collated).toMatchObject({ samples: 2, tokens: 4, targetTokens: 4 });
    expect(Object.keys(collateRecords([sample(2), sample(2)]).batch)).toEqual(["input_ids", "labels"]);
  });

  it("keep masks and all that comes with them", () => {
    const mask = (...values: number[]) => Uint8Array.from(values);
    const collated = collateRecords([
      sample(2, { attentionMask: mask(1, 0), weight: 2, source: "a" }),
      sample(3, { attentionMask: mask(1, 1, 1), weight: 1, source: "b" }),
    ]);
    expect(listed(collated).attention_mask).toEqual(["bool", [2, 3], [1, 0, 0, 1, 1, 1]]);
    expect(listed(collated).weight).toEqual(["float32", [2], [2, 1]]);
    expect(collated.lists).toEqual({ source: ["a", "b"] });
    expect(collated.tokens).toBe(4);
  });
});

describe("samples that do not fit together", () => {
  it.each<[string, RecordSample[], string, RegExp]>([
    ["none", [], "data.empty_batch", /no samples/],
    [
      "a missing field",
      [{ x: 1, y: 2 }, { x: 1 }],
      "data.sample_fields",
      /Sample 1 of the batch lacks the field "y"/,
    ],
    [
      "a further field",
      [{ x: 1 }, { x: 1, z: 2 }],
      "data.sample_fields",
      /has the field "z", unlike sample 0/,
    ],
    [
      "shapes",
      [{ x: Int32Array.of(1) }, { x: Int32Array.of(1, 2) }],
      "data.field_shape",
      /int32 \[2\] in sample 1 and int32 \[1\] in sample 0/,
    ],
    ["types", [{ x: Int32Array.of(1) }, { x: [1] }], "data.field_shape", /float32 \[1\] in sample 1/],
    [
      "a number and a word",
      [{ x: 1 }, { x: "one" }],
      "data.field_type",
      /Field "x" of sample 1 is of type string/,
    ],
  ])("%s", (_, samples, code, message) => {
    const error = errorOf(() => collateRecords(samples)) as DataError;
    expect(error.code).toBe(code);
    expect(error.message).toMatch(message);
  });
});

describe("a dataset of a user's own", () => {
  it("of records is read, batched and checked by its own fields", async () => {
    const { buildDataloader } = await import("speedtronic/data");
    const dataset = {
      length: 4,
      get: (index: number) => ({ x: Float32Array.of(index, 1), labels: index % 2, name: `row ${index}` }),
      describe: () => ({ kind: "points" }),
    };
    const config = { vocabSize: 2, blockSize: 4, microBatchSize: 2 };
    const data = await buildDataloader({ config, dataset });
    const loaded = await data.train.next();
    expect(listed(loaded)).toEqual({
      x: ["float32", [2, 2], [0, 1, 1, 1]],
      labels: ["float32", [2], [0, 1]],
    });
    expect(loaded.lists).toEqual({ name: ["row 0", "row 1"] });
    await data.train.close();
  });

  it("keeps what comes with its ids, which are checked as ever", async () => {
    const { buildDataloader } = await import("speedtronic/data");
    const of = (id: number) => ({
      length: 2,
      get: () => ({ inputIds: Int32Array.of(1, id), labels: Int32Array.of(1, 1), weight: 3 }),
      describe: () => ({ kind: "weighted" }),
    });
    const config = { vocabSize: 5, blockSize: 2, microBatchSize: 2 };
    const data = await buildDataloader({ config, dataset: of(2) });
    expect(Object.keys((await data.train.next()).batch)).toEqual(["input_ids", "labels", "weight"]);
    await data.train.close();
    const wrong = await buildDataloader({ config, dataset: of(5) });
    await expect(wrong.train.next()).rejects.toMatchObject({ code: "data.id_out_of_range" });
    await wrong.train.close();
  });
});
