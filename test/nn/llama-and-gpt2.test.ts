import { describe, expect, it } from "vitest";
import {
  buildModel,
  Generator,
  Gpt2,
  type IncrementalModel,
  initialize,
  Llama,
  type ModelOptions,
  ReferenceTransformer,
} from "../../src/nn/index.js";
import { scaleFrequency } from "../../src/nn/layers/rotary-scaling.js";
import { constant, evaluate, grad, referenceBackend } from "../../src/tensor/index.js";
import { ModelError } from "../../src/util/errors.js";
import { bool, errorOf, int32, largestDifference, setSineWeights, valuesOf } from "./helpers.js";

const shape: Partial<ModelOptions> = {
  vocabSize: 13,
  blockSize: 12,
  nLayer: 2,
  nHead: 4,
  nKvHead: 2,
  dModel: 8,
  mlpWidth: 10,
};
const llamaExtra = {
  head_dim: 6,
  norm_eps: 1e-3,
  qkv_bias: true,
  attention_output_bias: true,
  mlp_bias: true,
  rope_scaling: { type: "linear", factor: 2 },
};
const { nKvHead: _, ...gpt2Shape } = shape;

const models: [string, () => IncrementalModel][] = [
  ["llama", () => new Llama(shape)],
  ["llama with all settings", () => new Llama({ ...shape, tieWeights: false, extra: llamaExtra })],
  ["gpt2", () => new Gpt2(gpt2Shape)],
  [
    "gpt2 with all settings",
    () => new Gpt2({ ...gpt2Shape, tieWeights: false, extra: { activation: "relu", norm_eps: 1e-3 } }),
  ],
];

const ids = [
  [1, 4, 2, 6, 0, 12],
  [3, 3, 5, 0, 0, 7],
];

describe.each(models)("%s", (_name, build) => {
  const model = build();
  setSineWeights(model);

  it("computes from a cache what it computes from the whole", () => {
    const [B, T, V] = [2, 6, 13];
    const whole = valuesOf(model.forward({ input_ids: int32(ids) }).logits!);
    const rowOf = (b: number, t: number) => whole.slice((b * T + t) * V, (b * T + t + 1) * V);
    const position = (t: number) => constant({ dtype: "int32", shape: [1], data: Int32Array.of(t) });

    const { logits, keyValues } = model.prefill({
      input_ids: int32(ids.map((row) => row.slice(0, 4))),
      last: position(3),
    });
    const found = valuesOf(logits);
    for (let b = 0; b < B; b++)
      expect(largestDifference(found.slice(b * V, (b + 1) * V), rowOf(b, 3))).toBeLessThan(1e-5);

    const { heads, headWidth, layers } = model.cacheLayout;
    expect(keyValues).toHaveLength(layers);
    const inCache = (rows: Float32Array | Float64Array | ArrayLike<number>) => {
      // Rubbish behind the known rows must not be read.
      const data = new Float32Array(model.blockSize * B * heads * headWidth).fill(1e3);
      data.set(rows as Float32Array);
      return constant({ dtype: "float32", shape: [model.blockSize, B, heads, headWidth], data });
    };
    const cache = keyValues.map(({ key, value }) => ({
      key: inCache(evaluate(key).data),
      value: inCache(evaluate(value).data),
    }));
    const next = model.decode({
      input_ids: int32(ids.map((row) => [row[4]!])),
      position: position(4),
      cache,
    });
    const after = valuesOf(next.logits);
    for (let b = 0; b < B; b++)
      expect(largestDifference(after.slice(b * V, (b + 1) * V), rowOf(b, 4))).toBeLessThan(1e-5);
  });

  it("does not let a position see what follows, nor what is hidden", () => {
    const logits = (rows: number[][], mask?: number[][]) =>
      valuesOf(
        model.forward({ input_ids: int32(rows), ...(mask && { attention_mask: bool(mask) }) }).logits!,
      ).slice(0, 4 * 13);
    const before = logits([[1, 4, 2, 6, 0]]);
    expect(largestDifference(logits([[1, 4, 2, 6, 9]]), before)).toBeLessThan(1e-6);
    expect(largestDifference(logits([[1, 4, 2, 7, 0]]), before)).toBeGreaterThan(1e-3);
    const hidden = [[1, 1, 0, 1, 1]];
    const row3 = (rows: number[][]) => logits(rows, hidden).slice(3 * 13);
    expect(largestDifference(row3([[1, 4, 8, 6, 0]]), row3([[1, 4, 2, 6, 0]]))).toBeLessThan(1e-6);
  });

  it("has the gradients of its loss", () => {
    const labels = int32([
      [4, 2, 6, 0, 12, -100],
      [3, 5, 0, 0, 7, 1],
    ]);
    const lossOf = () => evaluate(model.forward({ input_ids: int32(ids), labels }).loss!).data[0]!;
    const parameters = [...model.namedParameters()];
    const { loss, tokenCount, lossSum } = model.forward({ input_ids: int32(ids), labels });
    const gradients = evaluate(
      grad(
        loss!,
        parameters.map(([, parameter]) => parameter),
      ),
    );
    expect(valuesOf(tokenCount!)).toEqual([11]);
    expect(valuesOf(lossSum!)[0]).toBeCloseTo(11 * lossOf(), 4);
    for (const [i, [name, parameter]] of parameters.entries()) {
      // One element of each tensor, the one that matters most, against a central difference.
      const data = Array.from(gradients[i]!.data);
      const at = data.reduce((best, value, j) => (Math.abs(value) > Math.abs(data[best]!) ? j : best), 0);
      const [value, step] = [parameter.data[at]!, 1e-2];
      parameter.data[at] = value + step;
      const above = lossOf();
      parameter.data[at] = value - step;
      const below = lossOf();
      parameter.data[at] = value;
      const numeric = (above - below) / (2 * step);
      expect(Math.abs(data[at]! - numeric), name).toBeLessThan(2e-3 + 0.02 * Math.abs(numeric));
    }
  });

  it("continues a sequence past its context, with and without a cache alike", async () => {
    const run = async (cached: boolean) => {
      const generator = new Generator({ model, backend: referenceBackend });
      const out = await generator.generate({ ids: [1, 2, 3], maxNewTokens: 14, temperature: 0, cached });
      await generator.close();
      return Array.from(out);
    };
    expect(await run(true)).toEqual(await run(false));
  });
});

describe("llama", () => {
  it("is the reference model under other names when it has no settings of its own", () => {
    const reference = new ReferenceTransformer(shape);
    initialize(reference, 3);
    const model = new Llama(shape);
    const values = [...reference.namedParameters().values()];
    for (const [i, parameter] of [...model.namedParameters().values()].entries())
      parameter.data.set(values[i]!.data);
    expect(valuesOf(model.forward({ input_ids: int32(ids) }).logits!)).toEqual(
      valuesOf(reference.forward({ input_ids: int32(ids) }).logits!),
    );
  });

  it("has the names of the family's files", () => {
    const layer = (i: number) =>
      [
        "input_layernorm.weight",
        "self_attn.q_proj.weight",
        "self_attn.q_proj.bias",
        "self_attn.k_proj.weight",
        "self_attn.k_proj.bias",
        "self_attn.v_proj.weight",
        "self_attn.v_proj.bias",
        "self_attn.o_proj.weight",
        "post_attention_layernorm.weight",
        "mlp.gate_proj.weight",
        "mlp.up_proj.weight",
        "mlp.down_proj.weight",
      ].map((name) => `model.layers.${i}.${name}`);
    const model = new Llama({ ...shape, extra: { qkv_bias: true, head_dim: 6 } });
    expect([...model.stateDict().keys()]).toEqual([
      "model.embed_tokens.weight",
      ...layer(0),
      ...layer(1),
      "model.norm.weight",
      "lm_head.weight",
    ]);
    expect(model.stateDict().get("model.layers.0.self_attn.q_proj.weight")!.shape).toEqual([24, 8]);
    expect(model.stateDict().get("model.layers.0.self_attn.o_proj.weight")!.shape).toEqual([8, 24]);
    expect(model.cacheLayout).toEqual({ layers: 2, heads: 2, headWidth: 6 });
  });

  it.each<[Record<string, unknown>, RegExp]>([
    [{ norm_epsilon: 1e-6 }, /"llama" has no setting extra.norm_epsilon; it has head_dim, norm_eps/],
    [{ norm_ep: 1e-6 }, /\(did you mean "norm_eps"\?\)/],
    [{ norm_eps: 0 }, /extra.norm_eps of the model "llama" must be a number greater than 0, got 0/],
    [{ qkv_bias: 1 }, /extra.qkv_bias .* must be true or false, got 1/],
    [{ head_dim: 2.5 }, /extra.head_dim .* must be a positive integer, or null, got 2.5/],
    [{ head_dim: 5 }, /head width 5 is odd/],
    [{ rope_scaling: "linear" }, /extra.rope_scaling .* must be null, \{type: "linear", factor\}/],
    [{ rope_scaling: { type: "linear" } }, /extra.rope_scaling/],
    [{ rope_scaling: { type: "yarn", factor: 2 } }, /extra.rope_scaling .* got \{"type":"yarn","factor":2\}/],
    [{ rope_scaling: { type: "constructor" } }, /extra.rope_scaling/],
  ])("refuses %j", (extra, message) => {
    const error = errorOf(() => buildModel({ name: "llama", ...shape, extra }));
    expect(error).toBeInstanceOf(ModelError);
    expect((error as ModelError).message).toMatch(message);
  });

  it("needs no width that the heads divide when they have one of their own", () => {
    expect(() => new Llama({ ...shape, dModel: 10 })).toThrow(/4 heads do not divide the width 10/);
    expect(new Llama({ ...shape, dModel: 10, extra: { head_dim: 6 } }).cacheLayout.headWidth).toBe(6);
  });

  it("slows long waves, keeps short ones, and goes over gradually", () => {
    const scaling = {
      kind: "llama3",
      factor: 8,
      lowFreqFactor: 1,
      highFreqFactor: 4,
      originalContext: 100,
    } as const;
    const waves = (count: number) => (2 * Math.PI * count) / 100;
    const kept = (count: number) => scaleFrequency(waves(count), scaling) / waves(count);
    expect([0.5, 1, 2.5, 4, 20].map(kept).map((x) => Number(x.toFixed(12)))).toEqual([
      0.125, 0.125, 0.5625, 1, 1,
    ]);
    expect(scaleFrequency(3, { kind: "linear", factor: 4 })).toBe(0.75);
    expect(scaleFrequency(3, null)).toBe(3);
  });
});

describe("gpt2", () => {
  it("has the names and layouts of its files", () => {
    const model = new Gpt2({ ...gpt2Shape, nLayer: 1 });
    const D = 8;
    expect(Object.fromEntries([...model.stateDict()].map(([name, value]) => [name, value.shape]))).toEqual({
      "transformer.wte.weight": [13, D],
      "transformer.wpe.weight": [12, D],
      "transformer.h.0.ln_1.weight": [D],
      "transformer.h.0.ln_1.bias": [D],
      "transformer.h.0.attn.c_attn.weight": [D, 3 * D],
      "transformer.h.0.attn.c_attn.bias": [3 * D],
      "transformer.h.0.attn.c_proj.weight": [D, D],
      "transformer.h.0.attn.c_proj.bias": [D],
      "transformer.h.0.ln_2.weight": [D],
      "transformer.h.0.ln_2.bias": [D],
      "transformer.h.0.mlp.c_fc.weight": [D, 10],
      "transformer.h.0.mlp.c_fc.bias": [10],
      "transformer.h.0.mlp.c_proj.weight": [10, D],
      "transformer.h.0.mlp.c_proj.bias": [D],
      "transformer.ln_f.weight": [D],
      "transformer.ln_f.bias": [D],
      "lm_head.weight": [13, D],
    });
  });

  it("takes d_ff for the width itself", () => {
    const widthOf = (options: Partial<ModelOptions>) =>
      new Gpt2({ ...gpt2Shape, mlpWidth: null, ...options }).stateDict().get("transformer.h.0.mlp.c_fc.bias")!
        .shape[0];
    expect([widthOf({}), widthOf({ dFf: 20 }), widthOf({ mlpWidth: 7 })]).toEqual([32, 20, 7]);
  });

  it.each<[Partial<ModelOptions>, RegExp]>([
    [{ nKvHead: 2 }, /as many key heads as heads: set n_kv_head to 4 or null, not 2/],
    [{ extra: { activation: "silu" } }, /must be "gelu_new" or "gelu" or "relu", got "silu"/],
    [{ extra: { qkv_bias: true } }, /no setting extra.qkv_bias; it has norm_eps, activation/],
  ])("refuses %j", (options, message) => {
    expect(() => new Gpt2({ ...gpt2Shape, ...options })).toThrow(message);
  });

  it("leaves the reference model without settings of its own", () => {
    expect(() => new ReferenceTransformer({ extra: { norm_eps: 1e-6 } })).toThrow(
      /"reference_transformer" has no setting extra.norm_eps; it has none of its own/,
    );
  });
});
