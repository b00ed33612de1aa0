// Shape and dtype rules of the operators that move elements without computing.

import { operatorError, requireExtents } from "../../errors.js";
import { broadcastShapes, formatShape, sameShape, sizeOf } from "../../shape.js";
import { operands, requireDtype, requireNumber, requireSameDtype, type ShapeRule } from "../rule.js";

const triangle: ShapeRule<"tril"> & ShapeRule<"triu"> = (_, inputs, op) => {
  const [x] = operands(op, inputs, 1);
  if (x!.rank < 2) throw operatorError(op, "needs rank 2 or more", inputs);
  return [{ shape: x!.shape, dtype: x!.dtype }];
};

export const shapeRules = {
  reshape: ({ shape }, inputs, op) => {
    const [x] = operands(op, inputs, 1);
    requireExtents(op, shape, inputs);
    if (sizeOf(shape) !== sizeOf(x!.shape))
      throw operatorError(
        op,
        `${formatShape(shape)} holds ${sizeOf(shape)} elements, the input ${sizeOf(x!.shape)}`,
        inputs,
      );
    return [{ shape, dtype: x!.dtype }];
  },
  transpose: ({ perm }, inputs, op) => {
    const [x] = operands(op, inputs, 1);
    if (
      perm.length !== x!.rank ||
      new Set(perm).size !== perm.length ||
      perm.some((p) => x!.shape[p] === undefined)
    )
      throw operatorError(op, `${formatShape(perm)} is not a permutation of ${x!.rank} axes`, inputs);
    return [{ shape: perm.map((axis) => x!.shape[axis]!), dtype: x!.dtype }];
  },
  expand: ({ shape }, inputs, op) => {
    const [x] = operands(op, inputs, 1);
    requireExtents(op, shape, inputs);
    const result = broadcastShapes(x!.shape, shape);
    if (!result || !sameShape(result, shape))
      throw operatorError(op, `${formatShape(x!.shape)} does not broadcast to ${formatShape(shape)}`, inputs);
    return [{ shape, dtype: x!.dtype }];
  },
  concat: ({ axis }, inputs, op) => {
    if (inputs.length === 0) throw operatorError(op, "needs at least one input");
    requireSameDtype(op, inputs);
    const first = inputs[0]!.shape;
    for (const t of inputs)
      if (t.rank !== first.length || t.shape.some((n, i) => i !== axis && n !== first[i]))
        throw operatorError(op, `all sizes but axis ${axis} must agree`, inputs);
    const total = inputs.reduce((sum, t) => sum + t.shape[axis]!, 0);
    return [{ shape: first.map((n, i) => (i === axis ? total : n)), dtype: inputs[0]!.dtype }];
  },
  split: ({ axis, sizes }, inputs, op) => {
    const [x] = operands(op, inputs, 1);
    const total = sizes.reduce((sum, n) => sum + n, 0);
    if (total !== x!.shape[axis] || sizes.some((n) => !Number.isInteger(n) || n < 0))
      throw operatorError(
        op,
        `sizes ${formatShape(sizes)} do not add up to axis ${axis} of ${formatShape(x!.shape)}`,
        inputs,
      );
    return sizes.map((size) => ({ shape: x!.shape.map((n, i) => (i === axis ? size : n)), dtype: x!.dtype }));
  },
  slice: ({ starts, ends }, inputs, op) => {
    const [x] = operands(op, inputs, 1);
    if (starts.length !== x!.rank || ends.length !== x!.rank)
      throw operatorError(op, `needs one start and end per axis (${x!.rank})`, inputs);
    x!.shape.forEach((extent, axis) => {
      const [start, end] = [starts[axis]!, ends[axis]!];
      if (!Number.isInteger(start) || !Number.isInteger(end) || start < 0 || end < start || end > extent)
        throw operatorError(op, `range ${start}…${end} is outside axis ${axis} of size ${extent}`, inputs);
    });
    return [{ shape: starts.map((start, axis) => ends[axis]! - start), dtype: x!.dtype }];
  },
  pad: ({ low, high, value }, inputs, op) => {
    const [x] = operands(op, inputs, 1);
    requireNumber(op, value, x!.dtype, "cast the tensor first", inputs);
    if (
      low.length !== x!.rank ||
      high.length !== x!.rank ||
      [...low, ...high].some((n) => !Number.isInteger(n) || n < 0)
    )
      throw operatorError(op, `needs one non-negative low and high count per axis (${x!.rank})`, inputs);
    return [{ shape: x!.shape.map((n, axis) => low[axis]! + n + high[axis]!), dtype: x!.dtype }];
  },
  tril: triangle,
  triu: triangle,
  iota: ({ size, dtype }, inputs, op) => {
    operands(op, inputs, 0);
    if (!Number.isSafeInteger(size) || size < 0) throw operatorError(op, `size ${size} is not a count`);
    if (dtype === "bool") throw operatorError(op, "needs a number dtype, got bool");
    return [{ shape: [size], dtype }];
  },
  oneHot: ({ depth, dtype }, inputs, op) => {
    const [x] = operands(op, inputs, 1);
    requireDtype(op, "the index", x!, "int32", inputs);
    if (!Number.isInteger(depth) || depth < 1)
      throw operatorError(op, `depth ${depth} must be at least 1`, inputs);
    return [{ shape: [...x!.shape, depth], dtype }];
  },
} satisfies { [K in ShapeName]: ShapeRule<K> };

type ShapeName =
  | "reshape"
  | "transpose"
  | "expand"
  | "concat"
  | "split"
  | "slice"
  | "pad"
  | "tril"
  | "triu"
  | "iota"
  | "oneHot";
