// Functions that move or repeat elements without computing.

import type { DType } from "../dtype.js";
import { operatorError } from "../errors.js";
import { requireTensors } from "../ops/rule.js";
import { apply, applyAll } from "../ops/shape-rules.js";
import { formatShape, sameShape, sizeOf } from "../shape.js";
import type { Tensor } from "../tensor.js";
import { resolveAxis } from "./linalg.js";

/** The same elements in row-major order under another shape; one extent may be −1. */
export function reshape(x: Tensor, shape: readonly number[]): Tensor {
  requireTensors("reshape", [x]);
  const holes = shape.filter((n) => n === -1).length;
  if (holes > 1)
    throw operatorError("reshape", `at most one extent may be -1, got ${formatShape(shape)}`, [x]);
  let target = [...shape];
  if (holes === 1) {
    const known = sizeOf(shape.filter((n) => n !== -1));
    if (known === 0 || sizeOf(x.shape) % known !== 0)
      throw operatorError("reshape", `${sizeOf(x.shape)} elements do not fill ${formatShape(shape)}`, [x]);
    target = shape.map((n) => (n === -1 ? sizeOf(x.shape) / known : n));
  }
  return sameShape(target, x.shape) ? x : apply("reshape", [x], { shape: target });
}

/** Axes in the order `perm`; reversed when absent. */
export function transpose(x: Tensor, perm?: readonly number[]): Tensor {
  requireTensors("transpose", [x]);
  const order = perm
    ? perm.map((axis) => resolveAxis("transpose", x, axis))
    : x.shape.map((_, i) => x.rank - 1 - i);
  return order.every((axis, i) => axis === i) && order.length === x.rank
    ? x
    : apply("transpose", [x], { perm: order });
}

/** `x` repeated to `shape` by broadcasting. */
export function expand(x: Tensor, shape: readonly number[]): Tensor {
  requireTensors("expand", [x]);
  return sameShape(x.shape, shape) ? x : apply("expand", [x], { shape: [...shape] });
}

export function concat(tensors: readonly Tensor[], axis: number): Tensor {
  requireTensors("concat", tensors);
  const first = tensors[0];
  if (!first) throw operatorError("concat", "needs at least one input");
  return apply("concat", tensors, { axis: resolveAxis("concat", first, axis) });
}

/** Joins equal shapes along a new axis. */
export function stack(tensors: readonly Tensor[], axis = 0): Tensor {
  requireTensors("stack", tensors);
  const first = tensors[0];
  if (!first) throw operatorError("stack", "needs at least one input");
  const at = axis < 0 ? axis + first.rank + 1 : axis;
  if (!(at >= 0 && at <= first.rank))
    throw operatorError("stack", `axis ${axis} is outside the result`, tensors);
  for (const t of tensors)
    if (!sameShape(t.shape, first.shape)) throw operatorError("stack", "all shapes must be equal", tensors);
  return concat(
    tensors.map((t) => reshape(t, [...t.shape.slice(0, at), 1, ...t.shape.slice(at)])),
    at,
  );
}

/** Cuts axis `axis` into parts: a number of equal parts, or their sizes. */
export function split(x: Tensor, parts: number | readonly number[], axis: number): Tensor[] {
  const at = resolveAxis("split", x, axis);
  const extent = x.shape[at]!;
  if (typeof parts === "number" && (!Number.isInteger(parts) || parts < 1 || extent % parts !== 0))
    throw operatorError("split", `${parts} equal parts do not divide axis ${axis} of size ${extent}`, [x]);
  const sizes = typeof parts === "number" ? new Array<number>(parts).fill(extent / parts) : [...parts];
  return applyAll("split", [x], { axis: at, sizes });
}

/** Elements start … end−1 of one axis; negative positions count from the end. */
export function slice(x: Tensor, axis: number, start: number, end?: number): Tensor {
  const at = resolveAxis("slice", x, axis);
  const extent = x.shape[at]!;
  const position = (p: number) => (p < 0 ? p + extent : p);
  const starts = x.shape.map((_, i) => (i === at ? position(start) : 0));
  const ends = x.shape.map((n, i) => (i === at ? position(end ?? extent) : n));
  return apply("slice", [x], { starts, ends });
}

/** Adds `low[i]` elements of `value` before and `high[i]` after axis i. */
export function pad(x: Tensor, low: readonly number[], high: readonly number[], value = 0): Tensor {
  return apply("pad", [x], { low: [...low], high: [...high], value });
}

/** Keeps elements with column ≤ row + diagonal of the last two axes, zero elsewhere. */
export const tril = (x: Tensor, diagonal = 0): Tensor => apply("tril", [x], { diagonal });
/** Keeps elements with column ≥ row + diagonal of the last two axes, zero elsewhere. */
export const triu = (x: Tensor, diagonal = 0): Tensor => apply("triu", [x], { diagonal });
/** 0, 1, … size−1. */
export const iota = (size: number, dtype: DType = "int32"): Tensor => apply("iota", [], { size, dtype });
/** 1 at the position that the index names along a new last axis, else 0; all 0 for an index out of range. */
export const oneHot = (indices: Tensor, depth: number, dtype: DType = "float32"): Tensor =>
  apply("oneHot", [indices], { depth, dtype });
