// What a reference kernel is, and the two places where rounding and index checks happen. Kernels compute in
// doubles whatever the dtype; `toStorage` rounds each result once. Nothing here is meant to be fast.

import { ModelError } from "../../../util/errors.js";
import { float16ToFloat32, float32ToFloat16 } from "../../../util/half.js";
import { allocate, type DType, type TensorData, type TypedArray } from "../../dtype.js";
import type { OpName, OpParams } from "../../ops/params.js";
import type { ValueType } from "../../tensor.js";

/** From operand values to the unrounded values of each output, row-major. */
export type ReferenceKernel<K extends OpName> = (
  params: OpParams[K],
  inputs: readonly TensorData[],
  outputs: readonly ValueType[],
) => Float64Array[];

/** `values` in the host array of `dtype`: floats rounded to nearest, int32 modulo 2^32. */
export function toStorage(dtype: DType, values: Float64Array): TypedArray {
  if (dtype === "float64") return values;
  const stored = allocate(dtype, values.length);
  stored.set(values);
  if (dtype === "float16") for (let i = 0; i < stored.length; i++) stored[i] = roundToHalf(stored[i]!);
  return stored;
}

/** The float16 value nearest to `x` (through float32, as processors without half arithmetic do). */
function roundToHalf(x: number): number {
  return float16ToFloat32(float32ToFloat16(x));
}

/** `index` if it lies in 0…size−1. `position` is where it stands in the flattened index tensor. */
export function checkedIndex(op: OpName, index: number, position: number, size: number): number {
  if (index >= 0 && index < size) return index;
  throw new ModelError(
    `${op}: index ${index} at position ${position} is out of range: the indexed axis has size ${size}, so indices go from 0 to ${size - 1}`,
    { code: "tensor.index", details: { op, index, position, size } },
  );
}
