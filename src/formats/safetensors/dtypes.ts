// The element types of the safetensors format: names, widths and their order in a canonical file.
// Widths are in bits, since the 4- and 6-bit floats are packed without padding.

/** Canonical order of tensors in a file, as the reference writer has it: widest alignment first. */
export const SAFETENSORS_DTYPES = [
  "U64",
  "I64",
  "F64",
  "C64",
  "F32",
  "U32",
  "I32",
  "BF16",
  "F16",
  "U16",
  "I16",
  "F8_E5M2FNUZ",
  "F8_E4M3FNUZ",
  "F8_E8M0",
  "F8_E4M3",
  "F8_E5M2",
  "I8",
  "U8",
  "F6_E3M2",
  "F6_E2M3",
  "F4",
  "BOOL",
] as const;

/** Element type of a tensor, by its name in the file. `C64` is a pair of float32 (real, imaginary). */
export type SafetensorsDtype = (typeof SAFETENSORS_DTYPES)[number];

/** Width of one element in bits. */
export const DTYPE_BITS = {
  U64: 64,
  I64: 64,
  F64: 64,
  C64: 64,
  F32: 32,
  U32: 32,
  I32: 32,
  BF16: 16,
  F16: 16,
  U16: 16,
  I16: 16,
  F8_E5M2FNUZ: 8,
  F8_E4M3FNUZ: 8,
  F8_E8M0: 8,
  F8_E4M3: 8,
  F8_E5M2: 8,
  I8: 8,
  U8: 8,
  F6_E3M2: 6,
  F6_E2M3: 6,
  F4: 4,
  BOOL: 8,
} as const satisfies Record<SafetensorsDtype, number>;

const DTYPE_RANKS: ReadonlyMap<string, number> = new Map(
  SAFETENSORS_DTYPES.map((name, rank) => [name, rank]),
);

/** Position of a dtype in the canonical file order. */
export function dtypeRank(dtype: SafetensorsDtype): number {
  return DTYPE_RANKS.get(dtype)!;
}

export function isSafetensorsDtype(name: string): name is SafetensorsDtype {
  return DTYPE_RANKS.has(name);
}

/**
 * Bytes that a tensor takes, or the reason why there is no such number: a product beyond 2^53 - 1, or packed
 * elements that do not fill whole bytes. Dimensions must be non-negative safe integers.
 */
export function tensorSizeBytes(
  dtype: SafetensorsDtype,
  shape: readonly number[],
): number | "overflow" | "partial_byte" {
  let count = 1;
  for (let i = 0; i < shape.length; i++) {
    count *= shape[i]!;
    if (!Number.isSafeInteger(count)) return "overflow";
  }
  const bits = count * DTYPE_BITS[dtype];
  if (!Number.isSafeInteger(bits)) return "overflow";
  return bits % 8 === 0 ? bits / 8 : "partial_byte";
}
