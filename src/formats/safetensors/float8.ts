// The values of the 8-bit floats, as one table of 256 numbers per kind. Names: E = exponent bits, M = mantissa
// bits; "FN" kinds have no infinities, "UZ" kinds have no negative zero (its pattern is the only NaN).
// Sources: OCP OFP8 and MX specifications (E4M3, E5M2, E8M0); the FNUZ kinds after Noune et al., 2022.

interface Float8Format {
  readonly mantissaBits: number;
  readonly bias: number;
  /** `ieee`: top exponent is infinity or NaN. `fn`: only all ones is NaN. `fnuz`: only 0x80 is NaN. */
  readonly special: "ieee" | "fn" | "fnuz";
}

const FORMATS = {
  F8_E4M3: { mantissaBits: 3, bias: 7, special: "fn" },
  F8_E5M2: { mantissaBits: 2, bias: 15, special: "ieee" },
  F8_E4M3FNUZ: { mantissaBits: 3, bias: 8, special: "fnuz" },
  F8_E5M2FNUZ: { mantissaBits: 2, bias: 16, special: "fnuz" },
} as const satisfies Record<string, Float8Format>;

export type Float8Dtype = keyof typeof FORMATS | "F8_E8M0";

const tables = new Map<Float8Dtype, Float32Array>();

/** Value of each of the 256 bit patterns. */
export function float8Values(dtype: Float8Dtype): Float32Array {
  const known = tables.get(dtype);
  if (known !== undefined) return known;
  const toValue =
    dtype === "F8_E8M0"
      ? (pattern: number) => (pattern === 0xff ? Number.NaN : 2 ** (pattern - 127))
      : (pattern: number) => decodePattern(pattern, FORMATS[dtype]);
  const table = Float32Array.from({ length: 256 }, (_, pattern) => toValue(pattern));
  tables.set(dtype, table);
  return table;
}

function decodePattern(pattern: number, { mantissaBits, bias, special }: Float8Format): number {
  const sign = pattern & 0x80 ? -1 : 1;
  const magnitude = pattern & 0x7f;
  const exponent = magnitude >> mantissaBits;
  const fraction = (magnitude & ((1 << mantissaBits) - 1)) / (1 << mantissaBits);
  const topExponent = 0x7f >> mantissaBits;
  if (special === "ieee" && exponent === topExponent) return fraction === 0 ? sign * Infinity : Number.NaN;
  if (special === "fn" && magnitude === 0x7f) return Number.NaN;
  if (special === "fnuz" && pattern === 0x80) return Number.NaN;
  if (exponent === 0) return sign * fraction * 2 ** (1 - bias);
  return sign * (1 + fraction) * 2 ** (exponent - bias);
}
