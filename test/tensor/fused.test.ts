// The fused operators against the same maths composed from primitives, in float64: values and gradients.

import { describe, expect, test } from "vitest";
import {
  add,
  attention,
  cast,
  concat,
  cos,
  div,
  dropoutMask,
  equal,
  evaluate,
  expand,
  gather,
  grad,
  input,
  iota,
  layerNorm,
  lessEqual,
  linearCrossEntropy,
  logicalAnd,
  logSoftmax,
  matmul,
  mean,
  mul,
  neg,
  notEqual,
  oneHot,
  reshape,
  rmsNorm,
  rotaryEmbedding,
  rsqrt,
  sigmoid,
  sin,
  slice,
  softmax,
  sub,
  sum,
  swiglu,
  type Tensor,
  type TensorData,
  transpose,
  where,
} from "../../src/tensor/index.js";
import { uniform } from "./case-generators.js";

type Feeds = Record<string, TensorData>;

/** A float64 input with random values, added to `feeds`. */
function draw(feeds: Feeds, name: string, ...shape: number[]): Tensor {
  const next = uniform(name.length + 100 * Object.keys(feeds).length);
  const size = shape.reduce((a, n) => a * n, 1);
  feeds[name] = { dtype: "float64", shape, data: Float64Array.from({ length: size }, () => 2 * next() - 1) };
  return input(name, shape, "float64");
}

function feed(
  feeds: Feeds,
  name: string,
  dtype: "int32" | "bool",
  shape: number[],
  values: number[],
): Tensor {
  feeds[name] = { dtype, shape, data: dtype === "int32" ? Int32Array.from(values) : Uint8Array.from(values) };
  return input(name, shape, dtype);
}

/** Expects equal values, and equal gradients of a randomly weighted sum by `wrt`. */
function expectSame(fused: Tensor, composed: Tensor, wrt: Tensor[], feeds: Feeds): void {
  const all = { ...feeds };
  const weights = draw(all, "weights", ...fused.shape);
  const numbers = (y: Tensor) => {
    const tensors = [y, ...grad(sum(mul(y, weights)), wrt)];
    return tensors.map((t) => ({ shape: t.shape, values: evaluate(t, onlyUsed(t, all)).data }));
  };
  const expected = numbers(composed);
  numbers(fused).forEach(({ shape, values }, i) => {
    expect(shape).toEqual(expected[i]!.shape);
    values.forEach((value, j) => {
      expect(value, `${i === 0 ? "value" : `gradient ${i - 1}`} at ${j}`).toBeCloseTo(
        expected[i]!.values[j]!,
        11,
      );
    });
  });
}

/** Feeds for the inputs that `t` depends on. */
function onlyUsed(t: Tensor, feeds: Feeds): Feeds {
  const seen = new Set([t.node]);
  const names = new Set<string>();
  for (const node of seen) {
    if (node.leaf?.kind === "input") names.add(node.leaf.name);
    for (const x of node.inputs) seen.add(x.node);
  }
  return Object.fromEntries(Object.entries(feeds).filter(([name]) => names.has(name)));
}

describe("attention", () => {
  const [T, B, K, G, D] = [4, 2, 2, 3, 2] as const;
  const H = K * G;

  /** Softmax attention over [B, H, T, S] scores, heads repeated, hidden keys left out. */
  function composed(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: number,
    visible?: Tensor,
    dropout?: Tensor,
  ): Tensor {
    const S = k.shape[0]!;
    const heads = (t: Tensor) => {
      const t_BKSD = transpose(t, [1, 2, 0, 3]);
      return reshape(expand(reshape(t_BKSD, [B, K, 1, S, D]), [B, K, G, S, D]), [B, H, S, D]);
    };
    const scores = mul(matmul(transpose(q, [1, 2, 0, 3]), heads(k), { transB: true }), scale);
    let p = softmax(visible ? where(visible, scores, -1e30) : scores);
    if (visible) p = mul(p, cast(visible, "float64"));
    if (dropout) p = mul(p, dropout);
    return transpose(matmul(p, heads(v)), [2, 0, 1, 3]);
  }

  function operands(S: number) {
    const feeds: Feeds = {};
    const q = draw(feeds, "q", T, B, H, D);
    const k = draw(feeds, "k", S, B, K, D);
    const v = draw(feeds, "v", S, B, K, D);
    return { feeds, q, k, v };
  }
  const causalMask = lessEqual(reshape(iota(T), [1, 1, 1, T]), reshape(iota(T), [1, 1, T, 1]));

  test("grouped heads, all keys visible, default scale", () => {
    const { feeds, q, k, v } = operands(5);
    expectSame(attention(q, k, v, { causal: false }), composed(q, k, v, 1 / Math.sqrt(D)), [q, k, v], feeds);
  });

  test.each([1, 2, 4])("causal in %d blocks", (blocks) => {
    const { feeds, q, k, v } = operands(T);
    expectSame(
      attention(q, k, v, { blocks, scale: 0.8 }),
      composed(q, k, v, 0.8, causalMask),
      [q, k, v],
      feeds,
    );
  });

  test.each([1, 2, 4])(
    "causal with a key mask and dropout, in %d blocks; rows without a key are zero",
    (blocks) => {
      const { feeds, q, k, v } = operands(T);
      // The second sequence sees nothing until its third key.
      const keyMask = feed(feeds, "keyMask", "bool", [B, T], [1, 1, 0, 1, 0, 0, 1, 1]);
      const rng = feed(feeds, "rng", "int32", [2], [3, 4]);
      const dropout = cast(dropoutMask(rng, [B, H, T, T], 0.3, 0), "float64");
      const visible = logicalAnd(reshape(keyMask, [B, 1, 1, T]), causalMask);
      const fused = attention(q, k, v, { blocks, scale: 0.8, keyMask, dropoutMask: dropout });
      expectSame(fused, composed(q, k, v, 0.8, visible, dropout), [q, k, v], feeds);
      const blind = slice(slice(fused, 0, 0, 2), 1, 1);
      expect(new Set(evaluate(blind, feeds).data)).toEqual(new Set([0]));
    },
  );

  test("a key mask without causality", () => {
    const { feeds, q, k, v } = operands(3);
    const keyMask = feed(feeds, "keyMask", "bool", [B, 3], [1, 0, 1, 0, 0, 0]);
    const fused = attention(q, k, v, { causal: false, scale: 0.8, keyMask, blocks: 2 });
    expectSame(fused, composed(q, k, v, 0.8, reshape(keyMask, [B, 1, 1, 3])), [q, k, v], feeds);
  });
});

test("rotaryEmbedding rotates pairs (j, j + D/2)", () => {
  const feeds: Feeds = {};
  const [T, B, H, D] = [3, 2, 2, 6] as const;
  const x = draw(feeds, "x", T, B, H, D);
  const angles = draw(feeds, "angles", T, D / 2);
  const wide = (t: Tensor) => reshape(concat([t, t], 1), [T, 1, 1, D]);
  const half = (t: Tensor, i: number) => slice(t, 3, (i * D) / 2, ((i + 1) * D) / 2);
  const turned = concat([neg(half(x, 1)), half(x, 0)], 3);
  const composed = add(mul(x, wide(cos(angles))), mul(turned, wide(sin(angles))));
  expectSame(rotaryEmbedding(x, cos(angles), sin(angles)), composed, [x], feeds);
});

test("swiglu is silu(gate) · up", () => {
  const feeds: Feeds = {};
  const [gate, up] = [draw(feeds, "gate", 3, 4), draw(feeds, "up", 3, 4)];
  expectSame(swiglu(gate, up), mul(mul(gate, sigmoid(gate)), up), [gate, up], feeds);
});

test.each([[[5]], [[2, 3, 5]]])("layerNorm of %j", (shape) => {
  const feeds: Feeds = {};
  const [x, weight, bias] = [draw(feeds, "x", ...shape), draw(feeds, "weight", 5), draw(feeds, "bias", 5)];
  const centred = sub(x, mean(x, { axis: -1, keepDims: true }));
  const variance = mean(mul(centred, centred), { axis: -1, keepDims: true });
  const composed = add(mul(mul(centred, rsqrt(add(variance, 1e-5))), weight), bias);
  expectSame(layerNorm(x, weight, bias), composed, [x, weight, bias], feeds);
});

test.each([[[5]], [[2, 3, 5]]])("rmsNorm of %j", (shape) => {
  const feeds: Feeds = {};
  const [x, weight] = [draw(feeds, "x", ...shape), draw(feeds, "weight", 5)];
  const composed = mul(mul(x, rsqrt(add(mean(mul(x, x), { axis: -1, keepDims: true }), 1e-5))), weight);
  expectSame(rmsNorm(x, weight), composed, [x, weight], feeds);
});

describe("linearCrossEntropy", () => {
  const [N, D, V] = [6, 3, 5] as const;

  function operands(values: number[]) {
    const feeds: Feeds = {};
    const [hidden, weight] = [draw(feeds, "hidden", N, D), draw(feeds, "weight", V, D)];
    return { feeds, hidden, weight, labels: feed(feeds, "labels", "int32", [N], values) };
  }

  test.each([1, 2, 3, 6])("in %d chunks, with ignored labels and a repeated one", (chunks) => {
    const { feeds, hidden, weight, labels } = operands([4, -100, 0, 4, -100, 2]);
    const counted = cast(notEqual(labels, -100), "float64");
    const picked = sum(
      mul(logSoftmax(matmul(hidden, weight, { transB: true })), oneHot(labels, V, "float64")),
      { axis: 1 },
    );
    const { lossSum, count } = linearCrossEntropy(hidden, weight, labels, { chunks });
    expectSame(lossSum, neg(sum(mul(picked, counted))), [hidden, weight], feeds);
    expect(evaluate(count, feeds).data).toEqual(Float64Array.of(4));
    expectSame(
      div(lossSum, count),
      div(neg(sum(mul(picked, counted))), sum(counted)),
      [hidden, weight],
      feeds,
    );
  });

  test("another ignored label", () => {
    const { feeds, hidden, weight, labels } = operands([4, 1, 0, 4, 1, 2]);
    const picked = sum(
      mul(logSoftmax(matmul(hidden, weight, { transB: true })), oneHot(labels, V, "float64")),
      { axis: 1 },
    );
    const { lossSum } = linearCrossEntropy(hidden, weight, labels, { ignoreIndex: 1 });
    const counted = sub(1, cast(equal(labels, 1), "float64"));
    expectSame(lossSum, neg(sum(mul(picked, counted))), [hidden, weight], feeds);
  });

  test("all labels ignored: no loss, no count, no gradient", () => {
    const { feeds, hidden, weight, labels } = operands(new Array<number>(N).fill(-100));
    const { lossSum, count } = linearCrossEntropy(hidden, weight, labels);
    const [byHidden, byWeight] = grad(lossSum, [hidden, weight]);
    const results = evaluate([lossSum, count, byHidden!, byWeight!], feeds).map(({ data }) => new Set(data));
    expect(results).toEqual([new Set([0]), new Set([0]), new Set([0]), new Set([0])]);
  });

  test("logits far apart do not overflow", () => {
    const hidden = input("h", [1, 1], "float32");
    const weight = input("w", [2, 1], "float32");
    const labels = input("l", [1], "int32");
    const { lossSum } = linearCrossEntropy(hidden, weight, labels);
    const loss = evaluate(lossSum, {
      h: { dtype: "float32", shape: [1, 1], data: Float32Array.of(1000) },
      w: { dtype: "float32", shape: [2, 1], data: Float32Array.of(1, -1) },
      l: { dtype: "int32", shape: [1], data: Int32Array.of(1) },
    });
    expect(loss.data).toEqual(Float32Array.of(2000));
  });
});

test("the gradient of dropout reaches what the mask kept", () => {
  const feeds: Feeds = {};
  const x = draw(feeds, "x", 4, 5);
  const rng = feed(feeds, "rng", "int32", [2], [1, 2]);
  const dropped = cast(dropoutMask(rng, [4, 5], 0.5, 1), "float64");
  const [byX] = grad(sum(mul(x, dropped)), [x]);
  const [g, mask] = evaluate([byX!, dropped], { rng: feeds.rng! });
  expect(g!.data).toEqual(mask!.data);
  expect(new Set(mask!.data)).toEqual(new Set([0, 2]));
});

test("embedding gradients add up over repeated ids", () => {
  const feeds: Feeds = {};
  const weight = draw(feeds, "weight", 4, 2);
  const ids = feed(feeds, "ids", "int32", [2, 2], [1, 3, 1, 1]);
  const composed = matmul(oneHot(ids, 4, "float64"), weight);
  expectSame(gather(weight, ids), composed, [weight], feeds);
});
