import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import {
  defaultModelOptions,
  initialize,
  type ModelOptions,
  mlpWidthOf,
  ReferenceTransformer,
} from "../../src/nn/index.js";
import { constant, evaluate, grad, input, type Tensor, withTrace } from "../../src/tensor/index.js";
import { ModelError } from "../../src/util/errors.js";
import {
  bool,
  errorOf,
  int32,
  largestDifference,
  rng,
  setSineWeights,
  tinyTransformer,
  valuesOf,
} from "./helpers.js";

interface GoldenCase {
  name: string;
  model: Record<string, number | boolean | null>;
  input_ids: number[][];
  attention_mask?: number[][] | null;
  labels: number[][];
  state_dict_shapes: Record<string, number[]>;
  logits: number[][][];
  loss: number;
  valid_targets: number;
  gradients?: Record<string, number[]>;
}

const golden = JSON.parse(
  readFileSync(new URL("../fixtures/golden-curve/golden-logits.json", import.meta.url), "utf8"),
) as { cases: GoldenCase[] };

function buildGolden(
  given: GoldenCase["model"],
  overrides: Partial<ModelOptions> = {},
): ReferenceTransformer {
  const model = new ReferenceTransformer({
    vocabSize: given.vocab_size as number,
    blockSize: given.block_size as number,
    nLayer: given.n_layer as number,
    nHead: given.n_head as number,
    nKvHead: given.n_kv_head as number,
    dModel: given.d_model as number,
    dFf: given.d_ff as number,
    tieWeights: given.tie_weights as boolean,
    ropeBase: given.rope_base as number,
    ...overrides,
  });
  setSineWeights(model);
  return model;
}

const specified = {
  vocab_size: 7,
  block_size: 8,
  n_layer: 2,
  n_head: 2,
  n_kv_head: 1,
  d_model: 8,
  d_ff: 12,
  tie_weights: true,
  rope_base: 10000,
};
const ids = int32([
  [1, 4, 2, 6, 0],
  [3, 3, 5, 0, 0],
]);
const mask = bool([
  [1, 1, 1, 1, 1],
  [1, 1, 1, 0, 0],
]);
const labels = int32([
  [4, 2, 6, 0, 5],
  [3, 5, 1, -100, -100],
]);

describe("golden vectors", () => {
  it("match the specification's logits and losses", () => {
    const model = buildGolden(specified);
    const output = model.forward({ input_ids: ids, attention_mask: mask, labels });
    const logits = valuesOf(output.logits!);
    const row = (b: number, t: number) => logits.slice((b * 5 + t) * 7, (b * 5 + t + 1) * 7);
    const expected: [number[], number[]][] = [
      [row(0, 0), [-0.25662, 0.269549, -0.045806, -0.218157, 0.290571, -0.107855, -0.169561]],
      [row(0, 4), [0.889618, -0.692766, -0.112356, 0.818827, -0.806341, 0.085863, 0.710006]],
      [row(1, 2), [-0.06689, -0.059835, 0.134023, -0.090534, -0.032446, 0.126938, -0.109974]],
      [row(1, 4), [0.612395, -0.069917, -0.53395, 0.668992, -0.216638, -0.425931, 0.694519]],
    ];
    for (const [found, wanted] of expected) expect(largestDifference(found, wanted)).toBeLessThan(2e-6);
    expect(valuesOf(output.loss!)[0]).toBeCloseTo(2.001458, 5);
    const short = model.forward({ input_ids: int32([[1, 4, 2, 6, 0]]), labels: int32([[4, 2, 6, 0]]) });
    expect(valuesOf(short.loss!)[0]).toBeCloseTo(1.913242, 5);
  });

  it.each(golden.cases.map((item) => [item.name, item] as const))(
    "match PyTorch in float64: %s",
    (_, item) => {
      const model = buildGolden(item.model);
      expect(Object.fromEntries([...model.stateDict()].map(([name, { shape }]) => [name, shape]))).toEqual(
        item.state_dict_shapes,
      );
      expect([...model.stateDict().keys()]).toEqual(Object.keys(item.state_dict_shapes));

      const output = model.forward({
        input_ids: int32(item.input_ids),
        labels: int32(item.labels),
        ...(item.attention_mask && { attention_mask: bool(item.attention_mask) }),
      });
      const parameters = [...model.namedParameters()];
      const gradients = item.gradients
        ? grad(
            output.loss!,
            parameters.map(([, parameter]) => parameter),
          )
        : [];
      const [logits, loss, count, ...found] = evaluate([
        output.logits!,
        output.loss!,
        output.tokenCount!,
        ...gradients,
      ]);
      expect(largestDifference(logits!.data, item.logits.flat(2))).toBeLessThan(1e-5);
      expect(Math.abs(loss!.data[0]! - item.loss)).toBeLessThan(1e-5);
      expect(count!.data[0]).toBe(item.valid_targets);
      if (!item.gradients) return;
      expect(Object.keys(item.gradients)).toEqual(parameters.map(([name]) => name));
      for (const [i, wanted] of Object.values(item.gradients).entries())
        expect(largestDifference(found[i]!.data, wanted)).toBeLessThan(1e-5);
    },
  );
});

describe("construction", () => {
  const smoke: Partial<ModelOptions> = {
    vocabSize: 128,
    blockSize: 32,
    nLayer: 2,
    nHead: 4,
    nKvHead: 2,
    dModel: 64,
    dFf: 128,
  };

  it("counts parameters as the specification does", () => {
    const defaults = new ReferenceTransformer();
    expect(defaults.parameterCount()).toBe(3_295_488);
    expect(new ReferenceTransformer({ tieWeights: false }).parameterCount()).toBe(3_295_488 + 512 * 256);
    const { vocabSize: V, nLayer: L, dModel: D, nHead: H } = defaults.options;
    const K = 2;
    const M = mlpWidthOf(defaults.options);
    expect(new ReferenceTransformer({ nKvHead: K }).parameterCount()).toBe(
      V * D + L * (2 * D + 2 * D ** 2 + (2 * K * D * D) / H + 3 * M * D) + D,
    );
  });

  it("counts 66,880 parameters for the smoke configuration", () => {
    expect(new ReferenceTransformer(smoke).parameterCount()).toBe(66_880);
  });

  it("names keys in state-dict order, tied or not", () => {
    const block = (i: number) =>
      [
        "ln1",
        "attn.q_proj",
        "attn.k_proj",
        "attn.v_proj",
        "attn.out_proj",
        "ln2",
        "mlp.gate_proj",
        "mlp.up_proj",
        "mlp.down_proj",
      ].map((name) => `transformer.h.${i}.${name}.weight`);
    const keys = [
      "transformer.wte.weight",
      ...block(0),
      ...block(1),
      "transformer.ln_f.weight",
      "lm_head.weight",
    ];
    const [tied, untied] = [tinyTransformer(), tinyTransformer({ tieWeights: false })];
    expect([...tied.stateDict().keys()]).toEqual(keys);
    expect([...untied.stateDict().keys()]).toEqual(keys);
    expect([...untied.namedParameters().keys()]).toEqual(keys);
    expect([...tied.namedParameters().keys()]).toEqual(keys.slice(0, -1));
    expect(tied.lm_head.weight).toBe(tied.transformer.wte.weight);
    expect([...tied.namedBuffers()]).toEqual([]);
  });

  it.each([
    [128, 4, 88],
    [1024, 8, 688],
    [768, 8, 512],
    [64, 4, 44],
    [12, 2, 8],
  ])("rounds dFf %i with %i heads to an MLP of width %i", (dFf, nHead, width) => {
    expect(mlpWidthOf({ ...defaultModelOptions, dFf, nHead })).toBe(width);
  });

  it("takes an explicit MLP width", () => {
    const model = tinyTransformer({ mlpWidth: 5 });
    expect(model.stateDict().get("transformer.h.0.mlp.down_proj.weight")?.shape).toEqual([8, 5]);
  });

  it.each<[Record<string, unknown>, RegExp]>([
    [{ dFf: 1 }, /dFf 1 gives an MLP of width 0/],
    [{ mlpWidth: 0 }, /mlpWidth must be a positive integer, got 0/],
    [{ nHead: 3 }, /3 heads do not divide the width 8/],
    [{ nHead: 4, nKvHead: 3 }, /3 key heads do not divide 4 heads/],
    [{ nHead: 8, nKvHead: 8 }, /head width 1 is odd/],
    [{ vocabSize: 0 }, /vocabSize must be a positive integer, got 0/],
    [{ dropout: 1 }, /dropout rate must be at least 0 and below 1, got 1/],
    [{ ropeBase: 0 }, /rotary base must be positive, got 0/],
    [{ nlayer: 3 }, /unknown model option "nlayer" \(did you mean "nLayer"\?\)/],
  ])("refuses %o", (options, message) => {
    const error = errorOf(() => tinyTransformer(options));
    expect(error).toBeInstanceOf(ModelError);
    expect((error as ModelError).message).toMatch(message);
  });

  it("exchanges weights through its state dict", () => {
    const [source, target] = [tinyTransformer({}, 1), tinyTransformer({}, 2)];
    target.loadStateDict(source.stateDict());
    expect(target.stateDict()).toEqual(source.stateDict());
    const state = source.stateDict();
    state.delete("lm_head.weight");
    expect(() => tinyTransformer({ tieWeights: false }).loadStateDict(state)).toThrow(
      /missing \(1\):\n {2}lm_head.weight/,
    );
  });
});

describe("forward", () => {
  const model = tinyTransformer();
  const logitsOf = (inputs: Record<string, Tensor>, m = model) => valuesOf(m.forward(inputs).logits!);

  it("gives the same with an all-true mask as without", () => {
    const all = bool([
      [1, 1, 1, 1, 1],
      [1, 1, 1, 1, 1],
    ]);
    const integers = int32([
      [1, 1, 1, 1, 1],
      [1, 1, 1, 1, 1],
    ]);
    const plain = logitsOf({ input_ids: ids });
    expect(largestDifference(logitsOf({ input_ids: ids, attention_mask: all }), plain)).toBeLessThan(1e-6);
    expect(logitsOf({ input_ids: ids, attention_mask: integers })).toEqual(
      logitsOf({ input_ids: ids, attention_mask: all }),
    );
  });

  it("gives rows without visible keys finite values and finite gradients", () => {
    const output = model.forward({
      input_ids: ids,
      attention_mask: bool([
        [0, 0, 1, 1, 1],
        [0, 0, 0, 0, 0],
      ]),
      labels,
    });
    const results = evaluate([
      output.logits!,
      output.loss!,
      ...grad(output.loss!, [...model.namedParameters().values()]),
    ]);
    for (const { data } of results) expect(data.every((x) => Number.isFinite(x))).toBe(true);
    // Nothing comes from attention there: the token's own path through the MLPs only.
    const alone = tinyTransformer();
    for (const [name, parameter] of alone.namedParameters())
      if (name.includes("out_proj")) parameter.data.fill(0);
    const expected = logitsOf({ input_ids: ids }, alone);
    expect(largestDifference(results[0]!.data.slice(0, 14), expected.slice(0, 14))).toBeLessThan(1e-6);
    expect(largestDifference(results[0]!.data.slice(35), expected.slice(35))).toBeLessThan(1e-6);
  });

  it("does not let a position see what follows, nor one row another", () => {
    const changed = logitsOf({
      input_ids: int32([
        [1, 4, 2, 5, 5],
        [3, 3, 5, 0, 0],
      ]),
    });
    const before = logitsOf({ input_ids: ids });
    expect(largestDifference(changed.slice(0, 21), before.slice(0, 21))).toBeLessThan(1e-6);
    expect(largestDifference(changed.slice(35), before.slice(35))).toBeLessThan(1e-6);
    expect(largestDifference(changed.slice(21, 35), before.slice(21, 35))).toBeGreaterThan(1e-4);
  });

  it("uses labels of equal length without a shift, and one shorter without the last position", () => {
    const full = model.forward({
      input_ids: ids,
      labels: int32([
        [4, 2, 6, 0, -100],
        [3, 5, 1, 1, -100],
      ]),
    });
    const short = model.forward({
      input_ids: ids,
      labels: int32([
        [4, 2, 6, 0],
        [3, 5, 1, 1],
      ]),
    });
    expect(valuesOf(short.lossSum!)[0]).toBeCloseTo(valuesOf(full.lossSum!)[0]!, 5);
    expect(valuesOf(short.tokenCount!)).toEqual([8]);
    expect(valuesOf(short.loss!)[0]).toBeCloseTo(valuesOf(short.lossSum!)[0]! / 8, 6);
  });

  it("has loss and gradients 0 when no label counts", () => {
    const none = int32([
      [-100, -100, -100, -100, -100],
      [-100, -100, -100, -100, -100],
    ]);
    const output = model.forward({ input_ids: ids, labels: none });
    const results = evaluate([
      output.loss!,
      output.lossSum!,
      output.tokenCount!,
      ...grad(output.loss!, [...model.namedParameters().values()]),
    ]);
    for (const { data } of results) expect(data.every((x) => x === 0)).toBe(true);
  });

  it.each<[string, Record<string, Tensor>, RegExp]>([
    [
      "a misspelt input",
      { input_ids: ids, atention_mask: mask },
      /takes no input "atention_mask" \(did you mean "attention_mask"\?\)/,
    ],
    ["no ids", { labels }, /needs the input "input_ids"/],
    [
      "ids that are floats",
      { input_ids: constant({ dtype: "float32", shape: [1, 1], data: new Float32Array(1) }) },
      /must be int32 \[B, T\], got float32 \[1, 1\]/,
    ],
    ["ids without batch", { input_ids: input("x", [5], "int32") }, /got int32 \[5\]/],
    ["empty ids", { input_ids: input("x", [2, 0], "int32") }, /got int32 \[2, 0\]/],
    [
      "a row beyond the context",
      { input_ids: input("x", [1, 9], "int32") },
      /has 9 positions, but the model was built for 8/,
    ],
    [
      "labels of another length",
      {
        input_ids: ids,
        labels: int32([
          [1, 2, 3],
          [1, 2, 3],
        ]),
      },
      /labels must be int32 \[2, 5\] or \[2, 4\].*got int32 \[2, 3\]/,
    ],
    ["labels of another batch", { input_ids: ids, labels: int32([[1, 2, 3, 4, 5]]) }, /got int32 \[1, 5\]/],
    [
      "a mask of another shape",
      { input_ids: ids, attention_mask: bool([[1, 1, 1, 1, 1]]) },
      /attention_mask must have the shape of input_ids, \[2, 5\], got \[1, 5\]/,
    ],
  ])("refuses %s", (_, inputs, message) => {
    const error = errorOf(() => model.forward(inputs));
    expect(error).toBeInstanceOf(ModelError);
    expect((error as ModelError).message).toMatch(message);
  });
});

describe("dropout", () => {
  const options = { dropout: 0.3 };
  const trainLogits = (seed: number, step: number, extra: Partial<ModelOptions> = {}) =>
    valuesOf(
      withTrace(
        { training: true },
        () => tinyTransformer({ ...options, ...extra }).forward({ input_ids: ids }).logits!,
      ),
      rng(seed, step),
    );

  it("repeats for one seed and step, and differs for another", () => {
    const first = trainLogits(7, 3);
    expect(trainLogits(7, 3)).toEqual(first);
    expect(trainLogits(7, 4)).not.toEqual(first);
    expect(trainLogits(8, 3)).not.toEqual(first);
  });

  it("is off outside training", () => {
    const plain = valuesOf(tinyTransformer().forward({ input_ids: ids }).logits!);
    const model = tinyTransformer(options);
    expect(valuesOf(withTrace({ training: false }, () => model.forward({ input_ids: ids }).logits!))).toEqual(
      plain,
    );
    expect(valuesOf(model.forward({ input_ids: ids }).logits!)).toEqual(plain);
  });

  it("drops once on each branch, and twice on the attention branch in compatible mode", () => {
    const masks = (extra: Partial<ModelOptions>) => {
      const { logits } = withTrace({ training: true }, () =>
        tinyTransformer({ ...options, ...extra }).forward({ input_ids: ids }),
      );
      const seen = new Set<Tensor["node"]>();
      const visit = (node: Tensor["node"]) => {
        if (seen.has(node)) return;
        seen.add(node);
        for (const { node: before } of node.inputs) visit(before);
      };
      visit(logits!.node);
      return [...seen].filter((node) => node.op === "dropoutMask").length;
    };
    // The embedding, and per layer: probabilities, attention branch, MLP branch.
    expect(masks({})).toBe(1 + 2 * 3);
    expect(masks({ doubleDropout: true })).toBe(1 + 2 * 4);
    expect(trainLogits(7, 3, { doubleDropout: true })).not.toEqual(trainLogits(7, 3));
  });
});

it("initialises differently for different seeds", () => {
  const model = tinyTransformer({}, 1);
  const before = model.transformer.wte.weight.data.slice();
  initialize(model, 2);
  expect(model.transformer.wte.weight.data).not.toEqual(before);
});
