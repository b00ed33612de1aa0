// Matrix products, reductions and scans.

import { operatorError } from "../errors.js";
import { requireTensors } from "../ops/rule.js";
import { apply } from "../ops/shape-rules.js";
import { formatShape, normalizeAxis } from "../shape.js";
import type { Tensor } from "../tensor.js";

/** `axis` as 0 … rank−1, or an OperatorError. */
export function resolveAxis(op: string, x: Tensor, axis: number): number {
  requireTensors(op, [x]);
  const normal = normalizeAxis(axis, x.rank);
  if (normal === undefined) throw operatorError(op, `axis ${axis} is outside ${formatShape(x.shape)}`, [x]);
  return normal;
}

/**
 * Matrix product over the last two axes; leading axes broadcast. `transA`/`transB` read an operand with its
 * last two axes exchanged, without moving data.
 */
export function matmul(a: Tensor, b: Tensor, options: { transA?: boolean; transB?: boolean } = {}): Tensor {
  return apply("matmul", [a, b], { transA: options.transA ?? false, transB: options.transB ?? false });
}

export interface ReduceOptions {
  /** One axis, several, or all when absent. */
  axis?: number | readonly number[];
  keepDims?: boolean;
}

function resolveAxes(op: string, x: Tensor, { axis, keepDims = false }: ReduceOptions) {
  requireTensors(op, [x]);
  const list = axis === undefined ? x.shape.map((_, i) => i) : typeof axis === "number" ? [axis] : axis;
  const axes = [...new Set(list.map((a) => resolveAxis(op, x, a)))].sort((a, b) => a - b);
  return { axes, keepDims };
}

const reduction =
  (op: "sum" | "mean" | "max" | "min") =>
  (x: Tensor, options: ReduceOptions = {}): Tensor =>
    apply(op, [x], resolveAxes(op, x, options));

export const sum = reduction("sum");
export const mean = reduction("mean");
/** Largest value, NaN where there is one; ties share the gradient equally. */
export const max = reduction("max");
/** Smallest value, NaN where there is one; ties share the gradient equally. */
export const min = reduction("min");

/** Index (int32) of the first largest value along `axis`; undefined where there is a NaN. */
export function argmax(x: Tensor, axis: number, keepDims = false): Tensor {
  return apply("argmax", [x], { axis: resolveAxis("argmax", x, axis), keepDims });
}

/** log Σ exp(x) along `axis`, without overflow. */
export function logsumexp(x: Tensor, axis: number, keepDims = false): Tensor {
  return apply("logsumexp", [x], { axis: resolveAxis("logsumexp", x, axis), keepDims });
}

/** Inclusive running sum along `axis`; from the end when `reverse`. */
export function cumsum(x: Tensor, axis: number, reverse = false): Tensor {
  return apply("cumsum", [x], { axis: resolveAxis("cumsum", x, axis), reverse });
}

export function softmax(x: Tensor, axis = -1): Tensor {
  return apply("softmax", [x], { axis: resolveAxis("softmax", x, axis) });
}

export function logSoftmax(x: Tensor, axis = -1): Tensor {
  return apply("logSoftmax", [x], { axis: resolveAxis("logSoftmax", x, axis) });
}
