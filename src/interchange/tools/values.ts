// Numbers out of a tensor's bytes and back, without losing precision that the tensor has: float64 and the 32- and
// 64-bit integers come as float64, everything narrower as float32. Integers beyond 2^53 are rounded.

import {
  type SafetensorsDtype,
  type SafetensorsTensor,
  tensorView,
  toFloat32,
} from "../../formats/safetensors/index.js";
import { encodeBfloat16, encodeFloat16 } from "../../util/half.js";

export type Values = Float32Array | Float64Array;

/** Dtypes that values can be encoded into. */
export const floatTargets = ["F64", "F32", "F16", "BF16"] as const;
export type FloatTarget = (typeof floatTargets)[number];

export function isFloatTarget(dtype: SafetensorsDtype): dtype is FloatTarget {
  return (floatTargets as readonly string[]).includes(dtype);
}

/** Floats of 4 and 6 bits are packed across bytes: no arithmetic on them here. */
export function isPacked(dtype: SafetensorsDtype): boolean {
  return dtype === "F6_E3M2" || dtype === "F6_E2M3" || dtype === "F4";
}

/** Numbers per element: complex numbers are two. */
export function valuesPerElement(dtype: SafetensorsDtype): number {
  return dtype === "C64" ? 2 : 1;
}

/** The values of `bytes`; may share memory with it. Not for packed dtypes. */
export function decodeValues(dtype: SafetensorsDtype, bytes: Uint8Array): Values {
  const tensor: SafetensorsTensor = { dtype, shape: [], bytes };
  switch (dtype) {
    case "F64":
      return tensorView({ ...tensor, dtype });
    case "U32":
    case "I32":
      return new Float64Array(tensorView({ ...tensor, dtype }));
    case "U64":
    case "I64":
      return Float64Array.from(tensorView({ ...tensor, dtype }) as Iterable<bigint>, Number);
    default:
      return toFloat32(tensor);
  }
}

/** Rounded to nearest, ties to even; values beyond the target's range become infinite. */
export function encodeValues(dtype: FloatTarget, values: Values): Uint8Array {
  if (dtype === "F64") return asBytes(values instanceof Float64Array ? values : new Float64Array(values));
  const narrow = values instanceof Float32Array ? values : toNearestFloat32(values, dtype);
  if (dtype === "F32") return asBytes(narrow);
  return asBytes(dtype === "F16" ? encodeFloat16(narrow) : encodeBfloat16(narrow));
}

const scratch = new Float32Array(1);
const scratchBits = new Uint32Array(scratch.buffer);

/**
 * For a 16-bit target float64 is rounded to odd first: rounding twice to nearest would turn some values that lie
 * just beside the middle of two 16-bit numbers the wrong way.
 */
function toNearestFloat32(values: Float64Array, target: FloatTarget): Float32Array {
  if (target === "F32") return new Float32Array(values);
  const out = new Float32Array(values.length);
  for (let i = 0; i < out.length; i++) {
    const value = values[i]!;
    scratch[0] = value;
    const rounded = scratch[0];
    if (rounded !== value && Number.isFinite(rounded) && (scratchBits[0]! & 1) === 0) {
      // Towards the exact value by one unit in the last place, which makes the last bit odd.
      const isTooLarge = Math.abs(rounded) > Math.abs(value);
      if (rounded === 0) scratchBits[0] = Math.sign(value) < 0 ? 0x80000001 : 1;
      else scratchBits[0] = scratchBits[0]! + (isTooLarge ? -1 : 1);
    }
    out[i] = scratch[0];
  }
  return out;
}

function asBytes({ buffer, byteOffset, byteLength }: ArrayBufferView): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}
