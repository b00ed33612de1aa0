// Several documents in one row: positions of their own, and attention that does not cross from one to another.

import { describe, expect, it, test } from "vitest";
import {
  buildModel,
  initialize,
  type LanguageModel,
  type ModelInputs,
  type TrainableModel,
} from "../../src/nn/index.js";
import { createOnnxBackend } from "../../src/tensor/backends/onnx/backend.node.js";
import { type Backend, evaluateGraph, type TensorData } from "../../src/tensor/index.js";
import { traceTraining } from "../../src/train/trace-model.js";
import { bool, errorOf, int32, largestDifference, valuesOf } from "./helpers.js";

const sizes = { vocabSize: 11, blockSize: 8, nLayer: 2, nHead: 4, dModel: 16, dFf: 24 };
const first = [3, 1, 4];
const second = [5, 9, 2, 6, 7];
const packed = int32([[...first, ...second]]);
const documents = int32([[0, 0, 0, 1, 1, 1, 1, 1]]);
const positions = int32([[0, 1, 2, 0, 1, 2, 3, 4]]);
const V = sizes.vocabSize;

describe.each([
  ["reference_transformer", { nKvHead: 2 }],
  ["llama", { nKvHead: 1 }],
  ["gpt2", {}],
])("%s", (name, more) => {
  const model = buildModel({ name, ...sizes, ...more }) as LanguageModel;
  initialize(model, 2);
  for (const parameter of model.namedParameters().values())
    for (let i = 0; i < parameter.data.length; i++)
      parameter.data[i]! += 0.2 * Math.sin(3 * i + parameter.rank);
  const logits = (inputs: ModelInputs) => valuesOf(model.forward(inputs).logits!);
  const alone = (ids: number[]) => logits({ input_ids: int32([ids]) });

  test("RL-64: documents of a row get what each would get alone", () => {
    const together = logits({ input_ids: packed, document_ids: documents, position_ids: positions });
    expect(largestDifference(together, [...alone(first), ...alone(second)])).toBeLessThan(2e-5);
    // Without the boundaries the second one sees the first.
    expect(largestDifference(logits({ input_ids: packed }).slice(3 * V), alone(second))).toBeGreaterThan(
      1e-3,
    );
  });

  it("one document with the usual positions is the usual pass, masked or not", () => {
    const usual = {
      document_ids: int32([[4, 4, 4, 4, 4, 4, 4, 4]]),
      position_ids: int32([[0, 1, 2, 3, 4, 5, 6, 7]]),
    };
    expect(
      largestDifference(logits({ input_ids: packed, ...usual }), logits({ input_ids: packed })),
    ).toBeLessThan(2e-5);
    const attention_mask = bool([[1, 1, 1, 1, 1, 0, 0, 0]]);
    const masked = logits({ input_ids: packed, attention_mask, ...usual });
    expect(largestDifference(masked, logits({ input_ids: packed, attention_mask }))).toBeLessThan(2e-5);
  });

  it("what is hidden, and rows that see nothing, stay finite", () => {
    const attention_mask = bool([[0, 1, 1, 1, 1, 1, 1, 1]]);
    const found = logits({ input_ids: packed, document_ids: documents, attention_mask });
    expect(found.every(Number.isFinite)).toBe(true);
  });

  it("is refused for places that do not fit the ids", () => {
    expect(errorOf(() => model.forward({ input_ids: packed, document_ids: int32([[0, 1]]) }))).toMatchObject({
      code: "model.places",
    });
    expect(
      errorOf(() => model.forward({ input_ids: packed, position_ids: bool([[1, 1, 1, 1, 1, 1, 1, 1]]) })),
    ).toMatchObject({
      code: "model.places",
    });
  });
});

describe("packed rows on the ONNX backend", () => {
  it("have the loss and the gradients of the reference", async () => {
    const model = buildModel({ name: "llama", ...sizes, nKvHead: 2 });
    initialize(model, 2);
    const of = (rows: number[]): TensorData => ({
      dtype: "int32",
      shape: [1, 8],
      data: Int32Array.from(rows),
    });
    const batch = {
      input_ids: of([...first, ...second]),
      labels: of([1, 4, -100, 9, 2, 6, 7, -100]),
      document_ids: of([0, 0, 0, 1, 1, 1, 1, 1]),
      position_ids: of([0, 1, 2, 0, 1, 2, 3, 4]),
    };
    const graph = traceTraining(model as TrainableModel, batch);
    const parameters = [...model.namedParameters()].map(([key, p]) => [`param.${key}`, p.toData()] as const);
    const feeds = { ...batch, ...Object.fromEntries(parameters) };
    const expected = evaluateGraph(graph, feeds);
    const backend: Backend = await createOnnxBackend({ threads: 1 });
    const executable = await backend.compile(graph);
    const found = await executable.run(feeds);
    for (const [key, { data }] of Object.entries(expected))
      expect(largestDifference(found[key]!.data, data), key).toBeLessThan(2e-5);
    await executable.close();
  });
});
