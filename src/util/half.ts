// Conversions between float32 and the two 16-bit floats: IEEE binary16 (float16) and bfloat16.
// Narrowing rounds to nearest, ties to even; NaN stays NaN (quiet, sign and top payload bits kept).
// Works on bit patterns, since engines may change a NaN's payload when it passes through a number.

const scratchFloat = new Float32Array(1);
const scratchBits = new Uint32Array(scratchFloat.buffer);

/** float32 bit pattern of a float16 bit pattern (exact). */
function widenFloat16Bits(half: number): number {
  const sign = (half & 0x8000) << 16;
  const exponent = (half >>> 10) & 0x1f;
  const mantissa = half & 0x3ff;
  if (exponent === 0x1f) return (sign | 0x7f800000 | (mantissa << 13)) >>> 0;
  if (exponent !== 0) return (sign | ((exponent + 112) << 23) | (mantissa << 13)) >>> 0;
  if (mantissa === 0) return sign >>> 0;
  // Subnormal: mantissa * 2^-24. Its leading one becomes float32's implicit bit.
  const shift = Math.clz32(mantissa) - 21;
  return (sign | ((113 - shift) << 23) | (((mantissa << shift) & 0x3ff) << 13)) >>> 0;
}

/** float16 bit pattern nearest to a float32 bit pattern. */
function narrowToFloat16Bits(bits: number): number {
  const sign = (bits >>> 16) & 0x8000;
  const magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00 | ((magnitude >>> 13) & 0x3ff);
  // From 65520 on, half way between the largest float16 and 65536, the nearest value is infinity.
  if (magnitude >= 0x477ff000) return sign | 0x7c00;
  if (magnitude >= 0x38800000) {
    const rounded = magnitude + 0xfff + ((magnitude >>> 13) & 1);
    return sign | ((rounded - 0x38000000) >>> 13);
  }
  // Result is subnormal or zero: count in units of 2^-24.
  const shift = 126 - (magnitude >>> 23);
  if (shift > 24) return sign;
  const mantissa = (magnitude & 0x7fffff) | 0x800000;
  const rest = mantissa & ((1 << shift) - 1);
  const half = 1 << (shift - 1);
  let units = mantissa >>> shift;
  if (rest > half || (rest === half && (units & 1) === 1)) units += 1;
  return sign | units;
}

/** bfloat16 bit pattern nearest to a float32 bit pattern. */
function narrowToBfloat16Bits(bits: number): number {
  if ((bits & 0x7fffffff) > 0x7f800000) return (bits >>> 16) | 0x0040;
  return ((bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16) & 0xffff;
}

/** Value of a float16 bit pattern. */
export function float16ToFloat32(half: number): number {
  scratchBits[0] = widenFloat16Bits(half);
  return scratchFloat[0]!;
}

/** float16 bit pattern nearest to `value` (rounded to float32 first). */
export function float32ToFloat16(value: number): number {
  scratchFloat[0] = value;
  return narrowToFloat16Bits(scratchBits[0]!);
}

/** Value of a bfloat16 bit pattern. */
export function bfloat16ToFloat32(bits: number): number {
  scratchBits[0] = bits << 16;
  return scratchFloat[0]!;
}

/** bfloat16 bit pattern nearest to `value` (rounded to float32 first). */
export function float32ToBfloat16(value: number): number {
  scratchFloat[0] = value;
  return narrowToBfloat16Bits(scratchBits[0]!);
}

/** Widens float16 bit patterns into `out` (same length; allocated when not given). */
export function decodeFloat16(source: Uint16Array, out = new Float32Array(source.length)): Float32Array {
  const bits = bitsOf(out, source.length);
  for (let i = 0; i < source.length; i++) bits[i] = widenFloat16Bits(source[i]!);
  return out;
}

/** Narrows float32 values to float16 bit patterns in `out` (same length; allocated when not given). */
export function encodeFloat16(source: Float32Array, out = new Uint16Array(source.length)): Uint16Array {
  const bits = bitsOf(source, out.length);
  for (let i = 0; i < bits.length; i++) out[i] = narrowToFloat16Bits(bits[i]!);
  return out;
}

/** Widens bfloat16 bit patterns into `out` (same length; allocated when not given). */
export function decodeBfloat16(source: Uint16Array, out = new Float32Array(source.length)): Float32Array {
  const bits = bitsOf(out, source.length);
  for (let i = 0; i < source.length; i++) bits[i] = source[i]! << 16;
  return out;
}

/** Narrows float32 values to bfloat16 bit patterns in `out` (same length; allocated when not given). */
export function encodeBfloat16(source: Float32Array, out = new Uint16Array(source.length)): Uint16Array {
  const bits = bitsOf(source, out.length);
  for (let i = 0; i < bits.length; i++) out[i] = narrowToBfloat16Bits(bits[i]!);
  return out;
}

function bitsOf(values: Float32Array, otherLength: number): Uint32Array {
  if (values.length !== otherLength) {
    throw new RangeError(`lengths differ: ${values.length} float32 values, ${otherLength} 16-bit values`);
  }
  return new Uint32Array(values.buffer, values.byteOffset, values.length);
}
