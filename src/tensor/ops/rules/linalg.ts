// Shape and dtype rules of matrix products, reductions and scans.

import { operatorError } from "../../errors.js";
import { broadcastShapes, formatShape } from "../../shape.js";
import type { Tensor, ValueType } from "../../tensor.js";
import type { OpParams } from "../params.js";
import { operands, requireFloating, requireSameDtype, requireShape, type ShapeRule } from "../rule.js";

/** Result type of `a · b` over the last two axes with broadcast leading axes. */
function matmulType(params: OpParams["matmul"], inputs: readonly Tensor[], op: string): ValueType {
  const [a, b] = inputs as [Tensor, Tensor];
  requireSameDtype(op, inputs);
  requireFloating(op, inputs);
  if (a.rank < 2 || b.rank < 2) throw operatorError(op, "needs operands of rank 2 or more", inputs);
  const [m, k] = params.transA ? [a.shape.at(-1)!, a.shape.at(-2)!] : [a.shape.at(-2)!, a.shape.at(-1)!];
  const [k2, n] = params.transB ? [b.shape.at(-1)!, b.shape.at(-2)!] : [b.shape.at(-2)!, b.shape.at(-1)!];
  if (k !== k2)
    throw operatorError(
      op,
      `inner sizes ${k} and ${k2} differ (${formatShape(a.shape)}${params.transA ? "ᵀ" : ""} · ${formatShape(b.shape)}${params.transB ? "ᵀ" : ""})`,
      inputs,
    );
  const batch = broadcastShapes(a.shape.slice(0, -2), b.shape.slice(0, -2));
  if (!batch)
    throw operatorError(
      op,
      `leading axes of ${formatShape(a.shape)} and ${formatShape(b.shape)} do not broadcast`,
      inputs,
    );
  return { shape: [...batch, m, n], dtype: a.dtype };
}

function reducedShape(shape: readonly number[], axes: readonly number[], keepDims: boolean): number[] {
  return keepDims
    ? shape.map((extent, axis) => (axes.includes(axis) ? 1 : extent))
    : shape.filter((_, axis) => !axes.includes(axis));
}

const reduction = (params: OpParams["sum"], inputs: readonly Tensor[], op: string): ValueType[] => {
  const [x] = operands(op, inputs, 1);
  requireFloating(op, inputs);
  return [{ shape: reducedShape(x!.shape, params.axes, params.keepDims), dtype: x!.dtype }];
};

/** As {@link reduction}, for those that have no value over nothing. */
const nonEmptyReduction = (params: OpParams["max"], inputs: readonly Tensor[], op: string): ValueType[] => {
  const empty = params.axes.find((axis) => inputs[0]!.shape[axis] === 0);
  if (empty !== undefined) throw operatorError(op, `cannot reduce axis ${empty} of size 0`, inputs);
  return reduction(params, inputs, op);
};

const sameFloat = (_: object, inputs: readonly Tensor[], op: string): ValueType[] => {
  const [x] = operands(op, inputs, 1);
  requireFloating(op, inputs);
  return [{ shape: x!.shape, dtype: x!.dtype }];
};

export const linalgRules = {
  matmul: (params, inputs, op) => [matmulType(params, operands(op, inputs, 2), op)],
  matmulAdd: (params, inputs, op) => {
    const [a, b, c] = operands(op, inputs, 3) as [Tensor, Tensor, Tensor];
    const type = matmulType(params, [a, b], op);
    if (b.rank !== 2) throw operatorError(op, "the second factor must be a matrix", inputs);
    requireShape(op, "the addend", c, type.shape, inputs);
    requireSameDtype(op, inputs);
    return [type];
  },
  sum: reduction,
  mean: nonEmptyReduction,
  max: nonEmptyReduction,
  min: nonEmptyReduction,
  argmax: ({ axis, keepDims }, inputs, op) =>
    nonEmptyReduction({ axes: [axis], keepDims }, inputs, op).map((type) => ({ ...type, dtype: "int32" })),
  logsumexp: ({ axis, keepDims }, inputs, op) => nonEmptyReduction({ axes: [axis], keepDims }, inputs, op),
  cumsum: sameFloat,
  softmax: sameFloat,
  logSoftmax: sameFloat,
} satisfies { [K in LinalgName]: ShapeRule<K> };

type LinalgName =
  | "matmul"
  | "matmulAdd"
  | "sum"
  | "mean"
  | "max"
  | "min"
  | "argmax"
  | "logsumexp"
  | "cumsum"
  | "softmax"
  | "logSoftmax";
