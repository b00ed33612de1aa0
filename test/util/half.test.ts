// 16-bit floats against their definitions: every pattern, and every midpoint between neighbours.

import { describe, expect, test } from "vitest";

import {
  bfloat16ToFloat32,
  decodeBfloat16,
  decodeFloat16,
  encodeBfloat16,
  encodeFloat16,
  float16ToFloat32,
  float32ToBfloat16,
  float32ToFloat16,
} from "../../src/util/half.js";

/** Value by the definition of an IEEE format with `exponentBits`, in float64 arithmetic. */
function define(pattern: number, exponentBits: number): number {
  const mantissaBits = 15 - exponentBits;
  const sign = pattern & 0x8000 ? -1 : 1;
  const exponent = (pattern & 0x7fff) >> mantissaBits;
  const fraction = (pattern & ((1 << mantissaBits) - 1)) / 2 ** mantissaBits;
  const bias = 2 ** (exponentBits - 1) - 1;
  if (exponent === 2 ** exponentBits - 1) return fraction === 0 ? sign * Infinity : Number.NaN;
  return sign * (exponent === 0 ? fraction * 2 ** (1 - bias) : (1 + fraction) * 2 ** (exponent - bias));
}

/** The float32 next to `value`, away from or towards zero. */
function neighbour(value: number, direction: 1 | -1): number {
  const float = new Float32Array([value]);
  new Int32Array(float.buffer)[0]! += direction;
  return float[0]!;
}

const FORMATS = [
  {
    name: "float16",
    exponentBits: 5,
    widen: float16ToFloat32,
    narrow: float32ToFloat16,
    decode: decodeFloat16,
    encode: encodeFloat16,
  },
  {
    name: "bfloat16",
    exponentBits: 8,
    widen: bfloat16ToFloat32,
    narrow: float32ToBfloat16,
    decode: decodeBfloat16,
    encode: encodeBfloat16,
  },
];

const PATTERNS = Array.from({ length: 0x10000 }, (_, pattern) => pattern);

describe.each(FORMATS)("$name", ({ exponentBits, widen, narrow, decode, encode }) => {
  const infinity = ((2 ** exponentBits - 1) << (15 - exponentBits)) >>> 0;

  test("every pattern has the value of its definition", () => {
    const wrong = PATTERNS.filter((pattern) => !Object.is(widen(pattern), define(pattern, exponentBits)));
    expect(wrong).toEqual([]);
  });

  test("every pattern survives widening and narrowing; NaN stays NaN and becomes quiet", () => {
    const quietBit = 1 << (14 - exponentBits);
    const isNan = (pattern: number) => (pattern & 0x7fff) > infinity;
    const expected = PATTERNS.map((pattern) => (isNan(pattern) ? pattern | quietBit : pattern));
    expect([...encode(decode(Uint16Array.from(PATTERNS)))]).toEqual(expected);
  });

  test("every midpoint goes to the even neighbour and its own neighbours to the nearer one", () => {
    const wrong: number[] = [];
    for (let low = 0; low < infinity; low++) {
      const high = low + 1;
      // The value that would follow the largest finite one stands for infinity when rounding.
      const top = high === infinity ? 2 * widen(low) - widen(low - 1) : widen(high);
      const middle = (widen(low) + top) / 2;
      const even = low % 2 === 0 ? low : high;
      for (const sign of [0, 0x8000]) {
        const signed = sign === 0 ? middle : -middle;
        if (narrow(signed) !== (sign | even)) wrong.push(low);
        if (narrow(neighbour(signed, -1)) !== (sign | low)) wrong.push(low);
        if (narrow(neighbour(signed, 1)) !== (sign | high)) wrong.push(low);
      }
    }
    expect(wrong).toEqual([]);
  });

  test("extremes: zero keeps its sign, the tiny vanish, the huge become infinite", () => {
    expect([0, -0, 2 ** -149, -(2 ** -149), 3.4e38, Infinity, -Infinity].map(narrow)).toEqual([
      0,
      0x8000,
      0,
      0x8000,
      exponentBits === 5 ? infinity : 0x7f80,
      infinity,
      0x8000 | infinity,
    ]);
  });

  test("arrays of different lengths are refused", () => {
    expect(() => encode(new Float32Array(3), new Uint16Array(2))).toThrow("lengths differ: 3 float32 values");
    expect(() => decode(new Uint16Array(3), new Float32Array(2))).toThrow("lengths differ: 2 float32 values");
  });
});
