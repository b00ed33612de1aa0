// The table of primitives: every operator a graph can hold, with the type of its static parameters.
// Shape rules, gradient rules, reference kernels and ONNX lowerings are each one table over these names,
// exhaustive by type. Anything that is not listed here is composed from these in `functions/`.

import type { DType } from "../dtype.js";

export type None = Record<string, never>;
export interface Axes {
  /** Normalised, ascending, without repeats. */
  axes: readonly number[];
  keepDims: boolean;
}
export interface Axis {
  /** Normalised: 0 … rank−1. */
  axis: number;
}

export interface AttentionParams {
  /** Multiplies q·kᵀ before the softmax. */
  scale: number;
  /** Key j is visible to query t iff j ≤ t. */
  causal: boolean;
  /** Queries are cut in this many equal runs; a causal run never computes keys that lie after it. */
  blocks: number;
  /** An input `keyMask` [B, S] follows q, k, v. */
  hasKeyMask: boolean;
  /** An input `dropoutMask` [B, H, T, S] follows. */
  hasDropout: boolean;
}

export interface OpParams {
  // elementwise, one input
  neg: None;
  exp: None;
  log: None;
  sqrt: None;
  rsqrt: None;
  tanh: None;
  sigmoid: None;
  erf: None;
  sin: None;
  cos: None;
  abs: None;
  sign: None;
  relu: None;
  silu: None;
  gelu: { approximate: "none" | "tanh" };
  logicalNot: None;
  clamp: { min: number; max: number };
  cast: { dtype: DType };
  stopGradient: None;
  // elementwise, broadcasting
  add: None;
  sub: None;
  mul: None;
  div: None;
  pow: None;
  minimum: None;
  maximum: None;
  equal: None;
  notEqual: None;
  less: None;
  lessEqual: None;
  greater: None;
  greaterEqual: None;
  logicalAnd: None;
  logicalOr: None;
  where: None;
  // linear algebra
  matmul: { transA: boolean; transB: boolean };
  matmulAdd: { transA: boolean; transB: boolean };
  // reductions and scans
  sum: Axes;
  mean: Axes;
  max: Axes;
  min: Axes;
  argmax: Axis & { keepDims: boolean };
  logsumexp: Axis & { keepDims: boolean };
  cumsum: Axis & { reverse: boolean };
  softmax: Axis;
  logSoftmax: Axis;
  // shape
  reshape: { shape: readonly number[] };
  transpose: { perm: readonly number[] };
  expand: { shape: readonly number[] };
  concat: Axis;
  split: Axis & { sizes: readonly number[] };
  slice: { starts: readonly number[]; ends: readonly number[] };
  pad: { low: readonly number[]; high: readonly number[]; value: number };
  tril: { diagonal: number };
  triu: { diagonal: number };
  iota: { size: number; dtype: DType };
  oneHot: { depth: number; dtype: DType };
  // indexing
  gather: Axis;
  takeAlong: Axis;
  scatterAdd: Axis;
  scatterAddAlong: Axis;
  // fused, with gradients of their own
  layerNorm: { eps: number };
  rmsNorm: { eps: number };
  dropoutMask: { shape: readonly number[]; rate: number; site: number };
  rotaryEmbedding: None;
  attention: AttentionParams;
  attentionGrad: AttentionParams;
  swiglu: None;
  linearCrossEntropy: { chunks: number; ignoreIndex: number };
}

export type OpName = keyof OpParams;
