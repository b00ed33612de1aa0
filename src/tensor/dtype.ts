// The dtypes a graph value can have and the typed array that holds each of them on the host.
// float16 has no host array on Node 20: it is stored as float32 values rounded to half precision.

import { ModelError } from "../util/errors.js";

export const dtypes = ["float32", "float64", "float16", "int32", "bool"] as const;
export type DType = (typeof dtypes)[number];

/** Host storage. `float16` lives in a Float32Array of representable values, `bool` in a Uint8Array of 0 and 1. */
export type TypedArray = Float32Array | Float64Array | Int32Array | Uint8Array;

export interface DTypeArrays {
  float32: Float32Array;
  float64: Float64Array;
  float16: Float32Array;
  int32: Int32Array;
  bool: Uint8Array;
}

/** A concrete tensor: row-major values of `shape`. The currency between data, engine, backends and files. */
export interface TensorData {
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly data: TypedArray;
}

export function isFloating(dtype: DType): boolean {
  return dtype === "float32" || dtype === "float64" || dtype === "float16";
}

/** A zero-filled host array for `size` elements of `dtype`. */
export function allocate<D extends DType>(dtype: D, size: number): DTypeArrays[D] {
  try {
    return new arrayConstructors[dtype](size) as DTypeArrays[D];
  } catch (cause) {
    const gigabytes = (size * arrayConstructors[dtype].BYTES_PER_ELEMENT) / 2 ** 30;
    throw new ModelError(
      `cannot hold ${size} values of ${dtype} in memory (${gigabytes.toFixed(1)} GiB): use a smaller model or batch`,
      { code: "tensor.out_of_memory", details: { size, dtype }, cause },
    );
  }
}

/** Whether `data` is of the kind that holds `dtype`. */
export function isStorageOf(dtype: DType, data: unknown): boolean {
  return Object.hasOwn(arrayConstructors, dtype) && data instanceof arrayConstructors[dtype];
}

const arrayConstructors = {
  float32: Float32Array,
  float64: Float64Array,
  float16: Float32Array,
  int32: Int32Array,
  bool: Uint8Array,
} as const;
