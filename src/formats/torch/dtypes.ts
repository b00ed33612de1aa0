// Element types as PyTorch names them, their widths, and what they are called in safetensors files.

import type { SafetensorsDtype } from "../safetensors/dtypes.js";

/** Bytes per element. `float4_e2m1fn_x2` is a byte that holds two elements. */
export const TORCH_DTYPE_BYTES = {
  float64: 8,
  float32: 4,
  float16: 2,
  bfloat16: 2,
  complex128: 16,
  complex64: 8,
  complex32: 4,
  int64: 8,
  int32: 4,
  int16: 2,
  int8: 1,
  uint64: 8,
  uint32: 4,
  uint16: 2,
  uint8: 1,
  bool: 1,
  float8_e4m3fn: 1,
  float8_e5m2: 1,
  float8_e4m3fnuz: 1,
  float8_e5m2fnuz: 1,
  float8_e8m0fnu: 1,
  float4_e2m1fn_x2: 1,
} as const;

/** Element type of a tensor, by PyTorch's name without `torch.`. */
export type TorchDtype = keyof typeof TORCH_DTYPE_BYTES;

const SAFETENSORS_NAMES: Readonly<Record<TorchDtype, SafetensorsDtype | undefined>> = {
  float64: "F64",
  float32: "F32",
  float16: "F16",
  bfloat16: "BF16",
  complex128: undefined,
  complex64: "C64",
  complex32: undefined,
  int64: "I64",
  int32: "I32",
  int16: "I16",
  int8: "I8",
  uint64: "U64",
  uint32: "U32",
  uint16: "U16",
  uint8: "U8",
  bool: "BOOL",
  float8_e4m3fn: "F8_E4M3",
  float8_e5m2: "F8_E5M2",
  float8_e4m3fnuz: "F8_E4M3FNUZ",
  float8_e5m2fnuz: "F8_E5M2FNUZ",
  float8_e8m0fnu: "F8_E8M0",
  float4_e2m1fn_x2: "F4",
};

/** Undefined where the safetensors format has no such type: `complex128` and `complex32`. */
export function safetensorsDtypeOf(dtype: TorchDtype): SafetensorsDtype | undefined {
  return SAFETENSORS_NAMES[dtype];
}

/** Element type of each class of typed storage. */
export const STORAGE_DTYPES: Readonly<Record<string, TorchDtype>> = {
  DoubleStorage: "float64",
  FloatStorage: "float32",
  HalfStorage: "float16",
  BFloat16Storage: "bfloat16",
  ComplexDoubleStorage: "complex128",
  ComplexFloatStorage: "complex64",
  LongStorage: "int64",
  IntStorage: "int32",
  ShortStorage: "int16",
  CharStorage: "int8",
  ByteStorage: "uint8",
  BoolStorage: "bool",
};

/** Other names that older and newer versions of PyTorch have for the same types. */
export const DTYPE_ALIASES: Readonly<Record<string, TorchDtype>> = {
  double: "float64",
  float: "float32",
  half: "float16",
  long: "int64",
  int: "int32",
  short: "int16",
  cdouble: "complex128",
  cfloat: "complex64",
  chalf: "complex32",
};
