// The example models, trained for a few plain gradient steps on the reference backend: each learns, each tensor
// moves. Their runs through the trainer are tested with the trainer.

import { describe, expect, it } from "vitest";
import { buildGpt2Style } from "../../examples/gpt2-style.js";
import { buildMlpClassifier, SpiralLoader } from "../../examples/mlp-classifier.js";
import { buildModel, generate, initialize, type TrainableModel } from "../../src/nn/index.js";
import { constant, evaluate, grad, referenceBackend, type TensorData } from "../../src/tensor/index.js";
import { largestDifference, valuesOf } from "./helpers.js";

/** Losses before each of `steps` gradient steps on one batch. */
function descend(
  model: TrainableModel,
  batch: Readonly<Record<string, TensorData>>,
  steps: number,
  lr: number,
): number[] {
  const parameters = [...model.namedParameters().values()];
  const inputs = Object.fromEntries(Object.entries(batch).map(([name, data]) => [name, constant(data)]));
  const loss = model.forward(inputs).loss!;
  const gradients = grad(loss, parameters);
  return Array.from({ length: steps }, () => {
    const [value, ...found] = evaluate([loss, ...gradients]);
    for (const [i, { data }] of parameters.entries())
      for (let j = 0; j < data.length; j++) data[j]! -= lr * found[i]!.data[j]!;
    return value!.data[0]!;
  });
}

function expectAllMoved(model: TrainableModel, before: Map<string, TensorData>): void {
  for (const [name, { data }] of model.stateDict())
    expect([name, data]).not.toEqual([name, before.get(name)!.data]);
}

const snapshot = (model: TrainableModel) =>
  new Map([...model.stateDict()].map(([name, value]) => [name, { ...value, data: value.data.slice() }]));

describe("mlp-classifier", () => {
  it("learns which spiral a point lies on", async () => {
    const model = buildMlpClassifier({ hidden: 16 });
    expect([...model.stateDict().keys()]).toEqual(
      [0, 2, 4].flatMap((layer) => [`layers.${layer}.weight`, `layers.${layer}.bias`]),
    );
    initialize(model, 1);
    const before = snapshot(model);
    const { batch } = await new SpiralLoader().next();
    const losses = descend(model, batch, 400, 0.5);
    expect(losses[0]).toBeGreaterThan(0.6);
    expect(losses.at(-1)).toBeLessThan(0.2);
    expectAllMoved(model, before);
    const inputs = Object.fromEntries(Object.entries(batch).map(([name, data]) => [name, constant(data)]));
    expect(valuesOf(model.forward(inputs).metrics!.accuracy!)[0]).toBeGreaterThan(0.9);
  });

  it("has data with a position that can be restored", async () => {
    const [loader, other] = [
      new SpiralLoader({ samples: 8, batchSize: 4 }),
      new SpiralLoader({ samples: 8, batchSize: 4 }),
    ];
    for (let i = 0; i < 3; i++) await loader.next();
    expect(loader.position()).toEqual({ epoch: 1, position: 4 });
    other.seek(loader.position());
    expect(await other.next()).toEqual(await loader.next());
  });
});

describe("gpt2-style", () => {
  const options = { vocabSize: 6, blockSize: 8, nLayer: 2, nHead: 2, dModel: 8, dFf: 16 };
  const ids = Int32Array.of(0, 1, 2, 3, 4, 5, 0, 1);
  const batch: Record<string, TensorData> = {
    input_ids: { dtype: "int32", shape: [1, 8], data: ids },
    labels: { dtype: "int32", shape: [1, 8], data: ids.map((id) => (id + 1) % 6) },
  };

  it("is registered, and learns to count", async () => {
    const model = buildModel({ name: "gpt2_style", ...options });
    initialize(model, 1);
    const before = snapshot(model);
    const losses = descend(model, batch, 150, 1);
    expect(losses[0]).toBeCloseTo(Math.log(6), 1);
    expect(losses.at(-1)).toBeLessThan(0.05);
    expectAllMoved(model, before);
    const continued = await generate({
      model: model as ReturnType<typeof buildGpt2Style>,
      backend: referenceBackend,
      ids: [0, 1, 2],
      maxNewTokens: 5,
      temperature: 0,
    });
    expect([...continued]).toEqual([3, 4, 5, 0, 1]);
  });

  it("has the size of GPT-2 where it has its shape", () => {
    const { vocabSize: V, blockSize: S, nLayer: L, dModel: D, dFf: F } = { ...options, vocabSize: 50 };
    const model = buildGpt2Style({ ...options, vocabSize: 50 });
    const block = 2 * 2 * D + (3 * D * D + 3 * D) + (D * D + D) + (D * F + F) + (F * D + D);
    expect(model.parameterCount()).toBe(V * D + S * D + L * block + 2 * D);
  });

  it("hides masked keys", () => {
    const model = buildGpt2Style(options);
    initialize(model, 3);
    const logits = (first: number, mask?: number[]) =>
      valuesOf(
        model.forward({
          input_ids: constant({ dtype: "int32", shape: [1, 3], data: Int32Array.of(first, 1, 2) }),
          ...(mask && {
            attention_mask: constant({ dtype: "bool", shape: [1, 3], data: Uint8Array.from(mask) }),
          }),
        }).logits!,
      ).slice(6);
    expect(largestDifference(logits(0), logits(5))).toBeGreaterThan(1e-6);
    expect(largestDifference(logits(0, [0, 1, 1]), logits(5, [0, 1, 1]))).toBe(0);
    expect(largestDifference(logits(0, [1, 1, 1]), logits(0))).toBeLessThan(1e-6);
  });
});
