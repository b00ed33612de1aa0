// Shape and dtype rules of the indexing operators. Indices are int32, non-negative and in range; the range
// is checked where the values are known (the data source or the reference backend), not here.

import { operatorError } from "../../errors.js";
import { formatShape } from "../../shape.js";
import type { Tensor } from "../../tensor.js";
import {
  operands,
  requireDtype,
  requireFloating,
  requireSameDtype,
  requireShape,
  type ShapeRule,
} from "../rule.js";

/** `base` with axis `axis` replaced by the whole shape of `indices`. */
function gatheredShape(base: Tensor, indices: Tensor, axis: number): number[] {
  return [...base.shape.slice(0, axis), ...indices.shape, ...base.shape.slice(axis + 1)];
}

function requireAlong(
  op: string,
  axis: number,
  base: Tensor,
  indices: Tensor,
  inputs: readonly Tensor[],
): void {
  if (base.rank !== indices.rank || indices.shape.some((n, i) => i !== axis && n !== base.shape[i]))
    throw operatorError(
      op,
      `indices ${formatShape(indices.shape)} must equal ${formatShape(base.shape)} except on axis ${axis}`,
      inputs,
    );
}

export const indexingRules = {
  gather: ({ axis }, inputs, op) => {
    const [x, indices] = operands(op, inputs, 2) as [Tensor, Tensor];
    requireDtype(op, "the index", indices, "int32", inputs);
    if (x.rank === 0) throw operatorError(op, "cannot index a scalar", inputs);
    return [{ shape: gatheredShape(x, indices, axis), dtype: x.dtype }];
  },
  takeAlong: ({ axis }, inputs, op) => {
    const [x, indices] = operands(op, inputs, 2) as [Tensor, Tensor];
    requireDtype(op, "the index", indices, "int32", inputs);
    requireAlong(op, axis, x, indices, inputs);
    return [{ shape: indices.shape, dtype: x.dtype }];
  },
  scatterAdd: ({ axis }, inputs, op) => {
    const [base, indices, updates] = operands(op, inputs, 3) as [Tensor, Tensor, Tensor];
    requireDtype(op, "the index", indices, "int32", inputs);
    requireFloating(op, [base, updates]);
    requireSameDtype(op, [base, updates]);
    requireShape(op, "the updates", updates, gatheredShape(base, indices, axis), inputs);
    return [{ shape: base.shape, dtype: base.dtype }];
  },
  scatterAddAlong: ({ axis }, inputs, op) => {
    const [base, indices, updates] = operands(op, inputs, 3) as [Tensor, Tensor, Tensor];
    requireDtype(op, "the index", indices, "int32", inputs);
    requireFloating(op, [base, updates]);
    requireSameDtype(op, [base, updates]);
    requireAlong(op, axis, base, indices, inputs);
    requireShape(op, "the updates", updates, indices.shape, inputs);
    return [{ shape: base.shape, dtype: base.dtype }];
  },
} satisfies { [K in "gather" | "takeAlong" | "scatterAdd" | "scatterAddAlong"]: ShapeRule<K> };
