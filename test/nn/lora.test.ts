// Adapters beside frozen weights: without effect at first, the only thing that is trained, and merged without a trace.

import { describe, expect, it } from "vitest";
import {
  addLora,
  buildModel,
  initialize,
  initializeLora,
  type LanguageModel,
  loraParameterNames,
  mergeLora,
} from "../../src/nn/index.js";
import { ModelError } from "../../src/util/errors.js";
import { errorOf, int32, largestDifference, valuesOf } from "./helpers.js";

const ids = int32([
  [1, 4, 2, 6, 0],
  [3, 3, 5, 0, 2],
]);
const logitsOf = (model: LanguageModel) => valuesOf(model.forward({ input_ids: ids }).logits!);
const sizes = { vocabSize: 7, blockSize: 8, nLayer: 2, nHead: 2, dModel: 8, dFf: 12 };
const lora = { rank: 2, alpha: 6, dropout: 0, targets: ["*attn*"] };

describe.each([
  ["reference_transformer", 4],
  ["llama", 4],
  ["gpt2", 2],
])("adapters of %s", (name, perLayer) => {
  function build(): LanguageModel {
    const model = buildModel({ name, ...sizes }) as LanguageModel;
    initialize(model, 3);
    return model;
  }

  it("change nothing before training, and are all that is trained", () => {
    const model = build();
    const before = logitsOf(model);
    const names = [...model.namedParameters().keys()];
    const layers = addLora(model, lora);
    initializeLora(model, 9);
    expect(layers).toHaveLength(2 * perLayer);
    expect(logitsOf(model)).toEqual(before);
    const own = loraParameterNames(model);
    expect(own).toEqual(layers.flatMap((layer) => [`${layer}.lora.A`, `${layer}.lora.B`]));
    for (const [parameter, { trainable }] of model.namedParameters())
      expect([parameter, trainable]).toEqual([parameter, own.includes(parameter)]);
    // What was there keeps its names, so that weights of others still fit.
    expect([...model.namedParameters().keys()].filter((parameter) => !own.includes(parameter))).toEqual(
      names,
    );
  });

  it("give the same logits once they are merged", () => {
    const model = build();
    const before = logitsOf(model);
    addLora(model, lora);
    initialize(model, 3);
    for (const parameter of loraParameterNames(model)) {
      const { data } = model.namedParameters().get(parameter)!;
      for (let i = 0; i < data.length; i++) data[i] = 0.3 * Math.sin(1.7 * i + parameter.length);
    }
    const adapted = logitsOf(model);
    expect(largestDifference(adapted, before)).toBeGreaterThan(1e-3);
    expect(mergeLora(model)).toBe(2 * perLayer);
    expect(largestDifference(logitsOf(model), adapted)).toBeLessThan(1e-5);
    expect(loraParameterNames(model)).toEqual([]);
    expect(mergeLora(model)).toBe(0);
  });
});

describe("targets", () => {
  const build = () => buildModel({ name: "llama", ...sizes });

  it("are layers, what holds them, or patterns", () => {
    const layersOf = (...targets: string[]) => addLora(build(), { ...lora, targets });
    expect(layersOf("model.layers.1.self_attn.q_proj")).toEqual(["model.layers.1.self_attn.q_proj"]);
    expect(layersOf("model.layers.0.mlp")).toEqual(
      ["gate_proj", "up_proj", "down_proj"].map((layer) => `model.layers.0.mlp.${layer}`),
    );
    expect(layersOf("*q_proj", "*.1.*v_proj")).toEqual([
      "model.layers.0.self_attn.q_proj",
      "model.layers.1.self_attn.q_proj",
      "model.layers.1.self_attn.v_proj",
    ]);
  });

  it("that name nothing are refused, and nothing is changed", () => {
    const model = build();
    const error = errorOf(() => addLora(model, { ...lora, targets: ["*q_proj", "*qproj"] })) as ModelError;
    expect(error).toBeInstanceOf(ModelError);
    expect(error.code).toBe("lora.no_such_layer");
    expect(error.message).toContain('"*qproj"');
    expect([...model.namedParameters().values()].every(({ trainable }) => trainable)).toBe(true);
    expect(errorOf(() => addLora(model, { ...lora, targets: [] }))).toMatchObject({
      code: "lora.no_targets",
    });
  });

  it("are given once", () => {
    const model = build();
    addLora(model, lora);
    expect(errorOf(() => addLora(model, lora))).toMatchObject({ code: "lora.present" });
  });
});
