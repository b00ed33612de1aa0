// Typed views and float32 values of a tensor's bytes. Assumes a little-endian machine, as every platform that
// runs this library is. No arithmetic beyond the conversion of each element.

import { decodeBfloat16, decodeFloat16 } from "../../util/half.js";
import type { SafetensorsDtype } from "./dtypes.js";
import { SafetensorsError } from "./errors.js";
import { type Float8Dtype, float8Values } from "./float8.js";
import type { SafetensorsTensor } from "./reader.js";

/** Typed array that {@link tensorView} gives for each dtype. 16-bit floats come as bit patterns. */
export interface TensorViews {
  U64: BigUint64Array;
  I64: BigInt64Array;
  F64: Float64Array;
  C64: Float32Array;
  F32: Float32Array;
  U32: Uint32Array;
  I32: Int32Array;
  BF16: Uint16Array;
  F16: Uint16Array;
  U16: Uint16Array;
  I16: Int16Array;
  F8_E5M2FNUZ: Uint8Array;
  F8_E4M3FNUZ: Uint8Array;
  F8_E8M0: Uint8Array;
  F8_E4M3: Uint8Array;
  F8_E5M2: Uint8Array;
  I8: Int8Array;
  U8: Uint8Array;
  F6_E3M2: Uint8Array;
  F6_E2M3: Uint8Array;
  F4: Uint8Array;
  BOOL: Uint8Array;
}

type ViewConstructor<D extends SafetensorsDtype> = {
  readonly BYTES_PER_ELEMENT: number;
  new (buffer: ArrayBufferLike, byteOffset: number, length: number): TensorViews[D];
};

const CONSTRUCTORS: { readonly [D in SafetensorsDtype]: ViewConstructor<D> } = {
  U64: BigUint64Array,
  I64: BigInt64Array,
  F64: Float64Array,
  C64: Float32Array,
  F32: Float32Array,
  U32: Uint32Array,
  I32: Int32Array,
  BF16: Uint16Array,
  F16: Uint16Array,
  U16: Uint16Array,
  I16: Int16Array,
  F8_E5M2FNUZ: Uint8Array,
  F8_E4M3FNUZ: Uint8Array,
  F8_E8M0: Uint8Array,
  F8_E4M3: Uint8Array,
  F8_E5M2: Uint8Array,
  I8: Int8Array,
  U8: Uint8Array,
  F6_E3M2: Uint8Array,
  F6_E2M3: Uint8Array,
  F4: Uint8Array,
  BOOL: Uint8Array,
};

/**
 * The tensor's bytes as a typed array: a view without a copy where their position in memory allows it, else a
 * copy. `C64` gives real and imaginary parts in turns; 4- and 6-bit floats stay packed in bytes.
 */
export function tensorView<D extends SafetensorsDtype>(
  tensor: SafetensorsTensor & { readonly dtype: D },
): TensorViews[D] {
  const View: ViewConstructor<D> = CONSTRUCTORS[tensor.dtype];
  const isAligned = tensor.bytes.byteOffset % View.BYTES_PER_ELEMENT === 0;
  const { buffer, byteOffset, byteLength } = isAligned ? tensor.bytes : new Uint8Array(tensor.bytes);
  return new View(buffer, byteOffset, byteLength / View.BYTES_PER_ELEMENT);
}

/**
 * The tensor's elements as float32, rounded to nearest where the dtype is wider. An aligned `F32` tensor comes
 * without a copy, so writing to the result writes to `tensor.bytes`. `C64` gives real and imaginary parts in
 * turns (twice as many values as elements).
 * @throws SafetensorsError `unsupported_dtype` for the packed 4- and 6-bit floats.
 */
export function toFloat32(tensor: SafetensorsTensor): Float32Array {
  const { dtype } = tensor;
  switch (dtype) {
    case "F32":
    case "C64":
      return tensorView({ ...tensor, dtype });
    case "F16":
      return decodeFloat16(tensorView({ ...tensor, dtype }));
    case "BF16":
      return decodeBfloat16(tensorView({ ...tensor, dtype }));
    case "U64":
    case "I64":
      return Float32Array.from(tensorView({ ...tensor, dtype }) as Iterable<bigint>, Number);
    case "F64":
    case "U32":
    case "I32":
    case "U16":
    case "I16":
    case "I8":
    case "U8":
    case "BOOL":
      return new Float32Array(tensorView({ ...tensor, dtype }));
    case "F8_E4M3":
    case "F8_E5M2":
    case "F8_E4M3FNUZ":
    case "F8_E5M2FNUZ":
    case "F8_E8M0":
      return decodeFloat8(dtype, tensor.bytes);
    case "F6_E3M2":
    case "F6_E2M3":
    case "F4":
      throw new SafetensorsError(
        "unsupported_dtype",
        `${dtype} cannot be converted to float32; use its bytes`,
      );
  }
}

function decodeFloat8(dtype: Float8Dtype, bytes: Uint8Array): Float32Array {
  const values = float8Values(dtype);
  const out = new Float32Array(bytes.byteLength);
  for (let i = 0; i < out.length; i++) out[i] = values[bytes[i]!]!;
  return out;
}
