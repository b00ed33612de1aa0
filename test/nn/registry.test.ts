import { describe, expect, it } from "vitest";
import {
  buildModel,
  defaultModelOptions,
  Linear,
  type ModelOptions,
  Module,
  modelNames,
  modelOptionsFromConfig,
  ReferenceTransformer,
  registerModel,
} from "../../src/nn/index.js";
import { ConfigError } from "../../src/util/errors.js";
import { errorOf } from "./helpers.js";

class Custom extends Module {
  readonly layer = new Linear(2, 2);
  constructor(readonly options: ModelOptions) {
    super();
  }
  forward() {
    return {};
  }
}

describe("model registry", () => {
  it("knows the reference model by two names", () => {
    expect(modelNames()).toEqual(expect.arrayContaining(["gpt", "reference_transformer"]));
    const model = buildModel({ name: "gpt", vocabSize: 9, nLayer: 1, dModel: 16, nHead: 2 });
    expect(model).toBeInstanceOf(ReferenceTransformer);
    expect((model as ReferenceTransformer).options).toEqual({
      ...defaultModelOptions,
      vocabSize: 9,
      nLayer: 1,
      dModel: 16,
      nHead: 2,
    });
  });

  it("builds registered models with all options", () => {
    registerModel("custom", (options) => new Custom(options));
    expect(modelNames()).toContain("custom");
    expect((buildModel({ name: "custom", dModel: 6 }) as Custom).options).toEqual({
      ...defaultModelOptions,
      dModel: 6,
    });
  });

  it("refuses empty and taken names, unless told to replace", () => {
    registerModel("taken", (options) => new Custom(options));
    expect(() => registerModel("taken", (options) => new Custom(options))).toThrow(
      /"taken" is registered already/,
    );
    expect(() => registerModel("gpt", (options) => new Custom(options))).toThrow(ConfigError);
    expect(() => registerModel(" ", (options) => new Custom(options))).toThrow(/not empty/);
    registerModel("taken", () => new ReferenceTransformer({ nLayer: 1 }), { replace: true });
    expect(buildModel({ name: "taken" })).toBeInstanceOf(ReferenceTransformer);
  });

  it("names what exists when a name is unknown", () => {
    const error = errorOf(() => buildModel({ name: "refrence_transformer" })) as ConfigError;
    expect(error).toBeInstanceOf(ConfigError);
    expect(error.message).toContain('did you mean "reference_transformer"?');
    // Other tests of this process may have registered models of their own.
    expect(error.message).toMatch(/gpt, gpt2, (?:.*, )?llama, (?:.*, )?reference_transformer/);
  });

  it("reads the config's section", () => {
    const section = {
      vocab_size: 1,
      max_seq_len: 2,
      n_layer: 3,
      n_head: 4,
      n_kv_head: 5,
      d_model: 6,
      d_ff: 7,
      dropout: 0.8,
      tie_weights: false,
      rope_base: 9,
      mlp_width: 10,
      extra: { norm_eps: 1e-6 },
    };
    expect(modelOptionsFromConfig(section, { double_dropout: true })).toEqual({
      vocabSize: 1,
      blockSize: 2,
      nLayer: 3,
      nHead: 4,
      nKvHead: 5,
      dModel: 6,
      dFf: 7,
      dropout: 0.8,
      tieWeights: false,
      ropeBase: 9,
      mlpWidth: 10,
      doubleDropout: true,
      residualScaledInit: false,
      extra: { norm_eps: 1e-6 },
    });
  });
});
