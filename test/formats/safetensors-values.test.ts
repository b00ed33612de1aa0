// Values of tensors: typed views without copies, and every dtype as float32.

import { describe, expect, test } from "vitest";

import {
  SAFETENSORS_DTYPES,
  type SafetensorsDtype,
  tensorView,
  toFloat32,
} from "../../src/formats/safetensors/index.js";

function tensor<D extends SafetensorsDtype>(dtype: D, data: ArrayBufferView) {
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  return { dtype, shape: [], bytes };
}

describe("toFloat32", () => {
  const third = Math.fround(1 / 3);
  test.each<[SafetensorsDtype, ArrayBufferView, number[]]>([
    ["U64", BigUint64Array.of(0n, 2n ** 64n - 1n), [0, 2 ** 64]],
    ["I64", BigInt64Array.of(-1n, 2n ** 53n), [-1, 2 ** 53]],
    ["F64", Float64Array.of(1 / 3, 1e300, -0), [third, Infinity, -0]],
    ["C64", Float32Array.of(1, -2, 3, 4), [1, -2, 3, 4]],
    ["F32", Float32Array.of(1 / 3, -0, Number.NaN), [third, -0, Number.NaN]],
    ["U32", Uint32Array.of(0, 2 ** 32 - 1), [0, 2 ** 32]],
    ["I32", Int32Array.of(-7, 7), [-7, 7]],
    ["BF16", Uint16Array.of(0x3f80, 0xc000, 0x7f80, 0x8000), [1, -2, Infinity, -0]],
    ["F16", Uint16Array.of(0x3c00, 0xc000, 0x7bff, 0x0001), [1, -2, 65504, 2 ** -24]],
    ["U16", Uint16Array.of(65535), [65535]],
    ["I16", Int16Array.of(-32768), [-32768]],
    // Extremes of each kind: largest, smallest normal, smallest, one, minus one, special patterns.
    [
      "F8_E4M3",
      Uint8Array.of(0x7e, 0x08, 0x01, 0x38, 0xb8, 0x7f, 0xff, 0x80),
      [448, 2 ** -6, 2 ** -9, 1, -1, Number.NaN, Number.NaN, -0],
    ],
    [
      "F8_E5M2",
      Uint8Array.of(0x7b, 0x04, 0x01, 0x3c, 0xbc, 0x7c, 0xfc, 0x7d, 0x80),
      [57344, 2 ** -14, 2 ** -16, 1, -1, Infinity, -Infinity, Number.NaN, -0],
    ],
    [
      "F8_E4M3FNUZ",
      Uint8Array.of(0x7f, 0x08, 0x01, 0x40, 0xc0, 0x80, 0x00),
      [240, 2 ** -7, 2 ** -10, 1, -1, Number.NaN, 0],
    ],
    [
      "F8_E5M2FNUZ",
      Uint8Array.of(0x7f, 0x04, 0x01, 0x40, 0xc0, 0x80, 0x00),
      [57344, 2 ** -15, 2 ** -17, 1, -1, Number.NaN, 0],
    ],
    ["F8_E8M0", Uint8Array.of(0x7f, 0x80, 0x00, 0xfe, 0xff), [1, 2, 2 ** -127, 2 ** 127, Number.NaN]],
    ["I8", Int8Array.of(-128, 127), [-128, 127]],
    ["U8", Uint8Array.of(255), [255]],
    ["BOOL", Uint8Array.of(0, 1), [0, 1]],
  ])("%s", (dtype, data, expected) => {
    expect([...toFloat32(tensor(dtype, data))]).toEqual(expected);
  });

  test.each(["F4", "F6_E2M3", "F6_E3M2"] as const)("%s is refused by name", (dtype) => {
    expect(() => toFloat32(tensor(dtype, new Uint8Array(3)))).toThrow(
      `${dtype} cannot be converted to float32`,
    );
  });
});

describe("tensorView", () => {
  test("aligned bytes are viewed, others copied, with the same values", () => {
    const buffer = new ArrayBuffer(32);
    const values = Float32Array.of(1, 2, 3);
    for (const byteOffset of [0, 4, 1, 6]) {
      const bytes = new Uint8Array(buffer, byteOffset, 12);
      bytes.set(new Uint8Array(values.buffer));
      const view = tensorView({ dtype: "F32", shape: [3], bytes });
      expect(view).toEqual(values);
      expect(view.buffer === buffer).toBe(byteOffset % 4 === 0);
      expect(toFloat32({ dtype: "F32", shape: [3], bytes })).toEqual(values);
    }
  });

  test("bytes of a Buffer that are not aligned are copied as well", () => {
    const buffer = Buffer.alloc(13);
    buffer.writeFloatLE(1.5, 1);
    expect([...tensorView({ dtype: "F32", shape: [], bytes: buffer.subarray(1, 5) })]).toEqual([1.5]);
  });

  test("every dtype has its typed array", () => {
    const kinds = SAFETENSORS_DTYPES.map((dtype) => {
      const view = tensorView({ dtype, shape: [], bytes: new Uint8Array(24) });
      return `${dtype}: ${view.constructor.name}[${view.length}]`;
    });
    expect(kinds).toEqual([
      "U64: BigUint64Array[3]",
      "I64: BigInt64Array[3]",
      "F64: Float64Array[3]",
      "C64: Float32Array[6]",
      "F32: Float32Array[6]",
      "U32: Uint32Array[6]",
      "I32: Int32Array[6]",
      "BF16: Uint16Array[12]",
      "F16: Uint16Array[12]",
      "U16: Uint16Array[12]",
      "I16: Int16Array[12]",
      "F8_E5M2FNUZ: Uint8Array[24]",
      "F8_E4M3FNUZ: Uint8Array[24]",
      "F8_E8M0: Uint8Array[24]",
      "F8_E4M3: Uint8Array[24]",
      "F8_E5M2: Uint8Array[24]",
      "I8: Int8Array[24]",
      "U8: Uint8Array[24]",
      "F6_E3M2: Uint8Array[24]",
      "F6_E2M3: Uint8Array[24]",
      "F4: Uint8Array[24]",
      "BOOL: Uint8Array[24]",
    ]);
  });
});
