// Reference kernels of indexing. Indices must lie in range: negative ones do not count from the end.
// Scattered updates are added in the order of their indices, in doubles.

import type { TensorData } from "../../../dtype.js";
import type { OpName } from "../../../ops/params.js";
import { checkedIndex, type ReferenceKernel } from "../kernel.js";
import { axisView } from "../strided.js";

/** Calls `visit(element, i)` for pairs of an element of `base` and the gathered (or update) element i it belongs to. */
function forEachSlice(
  op: OpName,
  base: TensorData,
  indices: TensorData,
  axis: number,
  visit: (at: number, i: number) => void,
): void {
  const { outer, extent, inner } = axisView(base.shape, axis);
  let i = 0;
  for (let o = 0; o < outer; o++)
    for (let position = 0; position < indices.data.length; position++) {
      const index = checkedIndex(op, indices.data[position]!, position, extent);
      for (let within = 0; within < inner; within++) visit((o * extent + index) * inner + within, i++);
    }
}

/** As {@link forEachSlice}, with one index per element. */
function forEachAlong(
  op: OpName,
  base: TensorData,
  indices: TensorData,
  axis: number,
  visit: (at: number, i: number) => void,
): void {
  const { extent, inner } = axisView(base.shape, axis);
  const run = indices.shape[axis]! * inner;
  indices.data.forEach((value, i) => {
    const index = checkedIndex(op, value, i, extent);
    visit((Math.floor(i / run) * extent + index) * inner + (i % inner), i);
  });
}

type Visitor = typeof forEachSlice;

const reading =
  <K extends "gather" | "takeAlong">(op: K, forEach: Visitor): ReferenceKernel<K> =>
  ({ axis }, [x, indices], [type]) => {
    const result = new Float64Array(type!.shape.reduce((size, extent) => size * extent, 1));
    forEach(op, x!, indices!, axis, (at, i) => {
      result[i] = x!.data[at]!;
    });
    return [result];
  };

const adding =
  <K extends "scatterAdd" | "scatterAddAlong">(op: K, forEach: Visitor): ReferenceKernel<K> =>
  ({ axis }, [base, indices, updates]) => {
    const result = Float64Array.from(base!.data);
    forEach(op, base!, indices!, axis, (at, i) => {
      result[at]! += updates!.data[i]!;
    });
    return [result];
  };

export const indexingKernels = {
  gather: reading("gather", forEachSlice),
  takeAlong: reading("takeAlong", forEachAlong),
  scatterAdd: adding("scatterAdd", forEachSlice),
  scatterAddAlong: adding("scatterAddAlong", forEachAlong),
} satisfies Partial<{ [K in OpName]: ReferenceKernel<K> }>;
