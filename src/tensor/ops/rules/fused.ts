// Shape and dtype rules of the fused operators. Their extra outputs are what their gradients need.
// Dimension names: T queries, S keys, B batch, H query heads, K key heads, D head width, N tokens, V vocabulary.

import { operatorError, requireExtents } from "../../errors.js";
import type { Tensor, ValueType } from "../../tensor.js";
import type { AttentionParams } from "../params.js";
import {
  operands,
  requireDtype,
  requireFloating,
  requireNumber,
  requireRank,
  requireSameDtype,
  requireShape,
  type ShapeRule,
} from "../rule.js";

/** Checks q [T,B,H,D], k and v [S,B,K,D] and the optional masks; returns the sizes. */
function attentionSizes(params: AttentionParams, inputs: readonly Tensor[], op: string) {
  const [q, k, v] = inputs as [Tensor, Tensor, Tensor];
  for (const [what, t] of [
    ["q", q],
    ["k", k],
    ["v", v],
  ] as const)
    requireRank(op, what, t, 4, inputs);
  requireFloating(op, [q, k, v]);
  requireSameDtype(op, [q, k, v]);
  const [T, B, H, D] = q.shape as [number, number, number, number];
  const [S, , K] = k.shape as [number, number, number, number];
  requireShape(op, "k", k, [S, B, K, D], inputs);
  requireShape(op, "v", v, [S, B, K, D], inputs);
  if (K === 0 || H % K !== 0)
    throw operatorError(op, `${K} key heads do not divide ${H} query heads`, inputs);
  if (params.causal && S !== T)
    throw operatorError(op, `causal attention needs as many keys as queries, got ${S} and ${T}`, inputs);
  if (T % params.blocks !== 0)
    throw operatorError(op, `${params.blocks} blocks do not divide ${T} queries`, inputs);
  let next = 3;
  if (params.hasKeyMask) {
    const mask = inputs[next++]!;
    requireDtype(op, "the key mask", mask, "bool", inputs);
    requireShape(op, "the key mask", mask, [B, S], inputs);
  }
  if (params.hasDropout) {
    const mask = inputs[next++]!;
    requireShape(op, "the dropout mask", mask, [B, H, T, S], inputs);
    requireSameDtype(op, [q, mask]);
  }
  return { T, B, H, K, S, D, next, dtype: q.dtype };
}

/** Types of the saved probabilities, one per block of queries: [B, H, T/blocks, visible keys]. */
function probabilityTypes(params: AttentionParams, sizes: ReturnType<typeof attentionSizes>): ValueType[] {
  const { T, B, H, S, dtype } = sizes;
  const rows = T / params.blocks;
  return Array.from({ length: params.blocks }, (_, block) => ({
    shape: [B, H, rows, params.causal ? (block + 1) * rows : S],
    dtype,
  }));
}

const sameAsFirst = (inputs: readonly Tensor[]): ValueType => ({
  shape: inputs[0]!.shape,
  dtype: inputs[0]!.dtype,
});

export const fusedRules = {
  layerNorm: (_, inputs, op) => {
    const [x, weight, bias] = operands(op, inputs, 3) as [Tensor, Tensor, Tensor];
    requireFloating(op, inputs);
    requireSameDtype(op, inputs);
    if (x.rank === 0) throw operatorError(op, "needs at least one axis", inputs);
    requireShape(op, "the weight", weight, [x.shape.at(-1)!], inputs);
    requireShape(op, "the bias", bias, [x.shape.at(-1)!], inputs);
    const stats: ValueType = { shape: [...x.shape.slice(0, -1), 1], dtype: x.dtype };
    return [sameAsFirst(inputs), stats, stats]; // y, mean, 1/std
  },
  rmsNorm: (_, inputs, op) => {
    const [x, weight] = operands(op, inputs, 2) as [Tensor, Tensor];
    requireFloating(op, inputs);
    requireSameDtype(op, inputs);
    if (x.rank === 0) throw operatorError(op, "needs at least one axis", inputs);
    requireShape(op, "the weight", weight, [x.shape.at(-1)!], inputs);
    return [sameAsFirst(inputs), { shape: [...x.shape.slice(0, -1), 1], dtype: x.dtype }]; // y, 1/rms
  },
  dropoutMask: ({ shape, rate }, inputs, op) => {
    const [rng] = operands(op, inputs, 1);
    requireDtype(op, "the generator state", rng!, "int32", inputs);
    requireShape(op, "the generator state", rng!, [2], inputs);
    requireExtents(op, shape, inputs);
    if (!(rate > 0 && rate < 1)) throw operatorError(op, `rate ${rate} must lie between 0 and 1`, inputs);
    return [{ shape, dtype: "float32" }];
  },
  rotaryEmbedding: (_, inputs, op) => {
    const [x, cos, sin] = operands(op, inputs, 3) as [Tensor, Tensor, Tensor];
    requireFloating(op, inputs);
    requireSameDtype(op, inputs);
    requireRank(op, "x", x, 4, inputs);
    const [T, , , D] = x.shape as [number, number, number, number];
    if (D % 2 !== 0) throw operatorError(op, `the head width ${D} must be even`, inputs);
    requireShape(op, "cos", cos, [T, D / 2], inputs);
    requireShape(op, "sin", sin, [T, D / 2], inputs);
    return [sameAsFirst(inputs)];
  },
  attention: (params, inputs, op) => {
    const sizes = attentionSizes(params, inputs, op);
    operands(op, inputs, sizes.next);
    return [sameAsFirst(inputs), ...probabilityTypes(params, sizes)];
  },
  attentionGrad: (params, inputs, op) => {
    // q, k, v, [keyMask], [dropoutMask], dOut, out, probabilities…
    const sizes = attentionSizes(params, inputs, op);
    operands(op, inputs, sizes.next + 2 + params.blocks);
    const [q, k, v] = inputs as [Tensor, Tensor, Tensor];
    return [q, k, v].map((t) => ({ shape: t.shape, dtype: t.dtype }));
  },
  swiglu: (_, inputs, op) => {
    const [gate, up] = operands(op, inputs, 2) as [Tensor, Tensor];
    requireFloating(op, inputs);
    requireSameDtype(op, inputs);
    requireShape(op, "the second input", up, gate.shape, inputs);
    return [sameAsFirst(inputs), sameAsFirst(inputs), sameAsFirst(inputs)]; // silu(gate)·up, silu(gate), sigmoid(gate)
  },
  // The range of the labels is not known here: the reference kernel throws, the onnx lowering makes the loss NaN.
  linearCrossEntropy: ({ chunks, ignoreIndex }, inputs, op) => {
    const [hidden, weight, labels] = operands(op, inputs, 3) as [Tensor, Tensor, Tensor];
    requireFloating(op, [hidden, weight]);
    requireSameDtype(op, [hidden, weight]);
    requireRank(op, "hidden", hidden, 2, inputs);
    requireRank(op, "weight", weight, 2, inputs);
    requireDtype(op, "labels", labels, "int32", inputs);
    const [N, D] = hidden.shape as [number, number];
    requireShape(op, "weight", weight, [weight.shape[0]!, D], inputs);
    requireShape(op, "labels", labels, [N], inputs);
    requireNumber(op, ignoreIndex, "int32", "labels are int32, so this one can never occur", inputs);
    if (N % chunks !== 0) throw operatorError(op, `${chunks} chunks do not divide ${N} tokens`, inputs);
    const scalar: ValueType = { shape: [], dtype: hidden.dtype };
    // summed loss, counted labels, d loss/d hidden, and softmaxᵀ·hidden (the dense part of d loss/d weight)
    return [
      scalar,
      scalar,
      { shape: [N, D], dtype: hidden.dtype },
      { shape: weight.shape, dtype: hidden.dtype },
    ];
  },
} satisfies { [K in FusedName]: ShapeRule<K> };

type FusedName =
  | "layerNorm"
  | "rmsNorm"
  | "dropoutMask"
  | "rotaryEmbedding"
  | "attention"
  | "attentionGrad"
  | "swiglu"
  | "linearCrossEntropy";
