// Canonical bytes: the golden file, the order of everything, streaming, refusals, and round trips.

import fc from "fast-check";
import { describe, expect, test } from "vitest";

import {
  DTYPE_BITS,
  encodeSafetensors,
  type MetadataInput,
  parseSafetensors,
  SAFETENSORS_DTYPES,
  type SafetensorsDtype,
  SafetensorsError,
  safetensorsSizeBytes,
  type TensorInput,
  type TensorStream,
  writeSafetensors,
} from "../../src/formats/safetensors/index.js";
import { hex } from "./craft.js";

/** The reference writer's file for `{w: float32[1, 2]}`. */
const GOLDEN =
  "4800000000000000" +
  "7b225f5f6d657461646174615f5f223a7b7d2c2277223a7b226474797065223a22463332222c" +
  "227368617065223a5b325d2c22646174615f6f666673657473223a5b302c385d7d7d" +
  "0000803f00000040";

const w: TensorInput = { name: "w", dtype: "F32", shape: [2], data: Float32Array.of(1, 2) };

function headerText(file: Uint8Array): string {
  const length = Number(new DataView(file.buffer).getBigUint64(0, true));
  return new TextDecoder().decode(file.subarray(8, 8 + length));
}

async function stream(tensors: Iterable<TensorStream>, metadata?: MetadataInput) {
  const chunks: Uint8Array[] = [];
  const sizeBytes = await writeSafetensors(
    { write: async (chunk) => void chunks.push(chunk.slice()) },
    tensors,
    metadata,
  );
  const file = new Uint8Array(Buffer.concat(chunks));
  expect(sizeBytes).toBe(file.byteLength);
  return file;
}

describe("bytes", () => {
  test("golden file of 88 bytes, from memory and streamed", async () => {
    expect(hex(encodeSafetensors([w]))).toBe(GOLDEN);
    expect(hex(await stream([w]))).toBe(GOLDEN);
    expect(safetensorsSizeBytes([w])).toBe(88);
  });

  test("an empty set", () => {
    expect(headerText(encodeSafetensors([]))).toBe('{"__metadata__":{}}     ');
  });

  test("tensors by dtype, then name by UTF-8 bytes; data in the same order; header padded to 8", () => {
    const names = ["z", "a.10", "é", "B", "a", "a-1", "_", "A", "a.2", "\u{1F600}", "\uFF01"];
    const floats = names.map((name, i) => ({
      name,
      dtype: "F32" as const,
      shape: [],
      data: Float32Array.of(i),
    }));
    const others = [...SAFETENSORS_DTYPES]
      .reverse()
      .filter((dtype) => dtype !== "F32")
      .map((dtype) => ({ name: `t-${dtype}`, dtype, shape: [0], data: new Uint8Array(0) }));
    const file = encodeSafetensors([...others, ...floats]);
    expect((file.byteLength - 44) % 8).toBe(0);
    const view = parseSafetensors(file);
    const order = ["A", "B", "_", "a", "a-1", "a.10", "a.2", "z", "é", "\uFF01", "\u{1F600}"];
    const positions = [...headerText(file).matchAll(/"([^"]*)":\{"dtype":"([^"]*)"/g)].map((m) => [
      m[1],
      m[2],
    ]);
    expect(positions).toEqual(
      SAFETENSORS_DTYPES.flatMap((dtype) =>
        dtype === "F32" ? order.map((name) => [name, dtype]) : [[`t-${dtype}`, dtype]],
      ),
    );
    expect(order.map((name) => new Float32Array(view.read(name).bytes.slice().buffer)[0])).toEqual(
      order.map((name) => names.indexOf(name)),
    );
  });

  test("the order of common dtypes is the reference writer's", () => {
    const reference = "U64 I64 F64 C64 F32 U32 I32 BF16 F16 U16 I16 F8_E4M3 F8_E5M2 I8 U8 BOOL".split(" ");
    expect(SAFETENSORS_DTYPES.filter((dtype) => reference.includes(dtype))).toEqual(reference);
  });

  test("metadata comes first, sorted, escaped as the reference does", () => {
    const metadata = { b: "2", a: '"\\\u0001\n\u007f\u2028é😀/', __proto__x: "" };
    expect(headerText(encodeSafetensors([], metadata)).trimEnd()).toBe(
      '{"__metadata__":{"__proto__x":"","a":"\\"\\\\\\u0001\\n\u007f\u2028é😀/","b":"2"}}',
    );
  });

  test("same state, same bytes, whatever the order of tensors and metadata", () => {
    const tensors = ["b", "a", "c"].map((name) => ({ ...w, name }));
    const one = encodeSafetensors(tensors, { x: "1", y: "2" });
    const other = encodeSafetensors(
      [...tensors].reverse(),
      new Map([
        ["y", "2"],
        ["x", "1"],
      ]),
    );
    expect(hex(one)).toBe(hex(other));
  });

  test("a view into a larger buffer writes its own bytes only", () => {
    const data = Float32Array.of(9, 1, 2, 9).subarray(1, 3);
    expect(hex(encodeSafetensors([{ ...w, data }]))).toBe(GOLDEN);
  });
});

describe("streaming", () => {
  const pieces = () => [Uint8Array.of(0, 0, 128), Uint8Array.of(), Uint8Array.of(63, 0, 0, 0, 64)];

  test("providers, synchronous or not, give the same bytes", async () => {
    async function* slowly() {
      yield* pieces();
    }
    expect(hex(await stream([{ ...w, data: pieces }]))).toBe(GOLDEN);
    expect(hex(await stream([{ ...w, data: slowly }]))).toBe(GOLDEN);
  });

  test("each provider is asked when its turn comes, in file order", async () => {
    const log: string[] = [];
    const tensors = ["b", "a"].map((name) => ({
      ...w,
      name,
      data: function* () {
        log.push(name);
        yield new Uint8Array(8);
      },
    }));
    await writeSafetensors({ write: async (chunk) => void log.push(`${chunk.byteLength} bytes`) }, tensors);
    expect(log).toEqual(["136 bytes", "a", "8 bytes", "b", "8 bytes"]);
  });

  test.each([
    ["too few bytes", [Uint8Array.of(1)], "take 8 bytes, the provider gave only 1"],
    ["too many bytes", [new Uint8Array(8), new Uint8Array(1)], "take 8 bytes, the provider gave more"],
  ])("%s", async (_name, chunks, message) => {
    const written: number[] = [];
    const sink = { write: async (chunk: Uint8Array) => void written.push(chunk.byteLength) };
    const writing = writeSafetensors(sink, [{ ...w, data: () => chunks }]);
    await expect(writing).rejects.toMatchObject({ code: "safetensors.size_mismatch", tensor: "w" });
    await expect(writing).rejects.toThrow(message);
    expect(written.reduce((sum, n) => sum + n)).toBeLessThanOrEqual(88);
  });

  test("a failing sink's error comes through", async () => {
    const sink = { write: () => Promise.reject(new Error("disk gone")) };
    await expect(writeSafetensors(sink, [w])).rejects.toThrow("disk gone");
  });
});

describe("refused", () => {
  test.each<[string, TensorInput[], MetadataInput, string]>([
    ["a name twice", [w, w], {}, "duplicate_key"],
    ["a name twice with different dtypes", [w, { ...w, dtype: "I32" }], {}, "duplicate_key"],
    ["the name of the metadata", [{ ...w, name: "__metadata__" }], {}, "invalid_name"],
    ["half a surrogate pair in a name", [{ ...w, name: "a\ud800" }], {}, "invalid_name"],
    ["an unknown dtype", [{ ...w, dtype: "F33" as SafetensorsDtype }], {}, "unknown_dtype"],
    ["data that is too short", [{ ...w, shape: [3] }], {}, "size_mismatch"],
    ["a shape with a fraction", [{ ...w, shape: [0.5, 4] }], {}, "overflow"],
    ["a negative shape", [{ ...w, shape: [-1, -2] }], {}, "overflow"],
    ["a shape that is NaN", [{ ...w, shape: [Number.NaN] }], {}, "overflow"],
    ["a shape beyond all bounds", [{ ...w, shape: [2 ** 40, 2 ** 40] }], {}, "overflow"],
    ["packed floats that do not fill a byte", [{ ...w, dtype: "F4", shape: [3] }], {}, "size_mismatch"],
    ["metadata that is not text", [w], { a: 1 } as unknown as MetadataInput, "invalid_metadata"],
    ["half a surrogate pair in metadata", [w], { a: "\udc00" }, "invalid_metadata"],
  ])("%s", (_name, tensors, metadata, problem) => {
    const code = (() => {
      try {
        encodeSafetensors(tensors, metadata);
        return "accepted";
      } catch (error) {
        return error instanceof SafetensorsError ? error.code : error;
      }
    })();
    expect(code).toBe(`safetensors.${problem}`);
  });
});

test("a file that no buffer can hold is refused in memory and told its size", () => {
  const data = (byteLength: number) => ({ byteLength }) as unknown as Uint8Array;
  const huge = { ...w, dtype: "U8" as const, shape: [2 ** 49], data: data(2 ** 49) };
  expect(() => encodeSafetensors([huge])).toThrow(
    expect.objectContaining({ code: "safetensors.too_large_for_memory" }),
  );
  expect(safetensorsSizeBytes([huge])).toBe(2 ** 49 + 112);
});

describe("round trips", () => {
  const text = fc.string({ unit: "grapheme", maxLength: 12 });
  const tensor = fc
    .record({
      dtype: fc.constantFrom(...SAFETENSORS_DTYPES),
      shape: fc.array(fc.nat({ max: 4 }), { maxLength: 4 }),
      fill: fc.nat({ max: 255 }),
    })
    .map(({ dtype, shape, fill }) => {
      // A last dimension of 8 makes packed floats fill whole bytes.
      const full = [...shape, 8];
      const sizeBytes = (full.reduce((a, b) => a * b) * DTYPE_BITS[dtype]) / 8;
      return { dtype, shape: full, data: Uint8Array.from({ length: sizeBytes }, (_, i) => fill + i * 7) };
    });
  const state = fc
    .uniqueArray(fc.tuple(text, tensor), { selector: ([name]) => name, maxLength: 12 })
    .filter((tensors) => tensors.every(([name]) => name !== "__metadata__"))
    .map((tensors) => tensors.map(([name, rest]) => ({ name, ...rest })));
  const metadata = fc.uniqueArray(fc.tuple(text, text), { selector: ([key]) => key, maxLength: 5 });

  test("what was written is read, streamed bytes are the same, writing again gives the same bytes", async () => {
    await fc.assert(
      fc.asyncProperty(state, metadata, async (tensors, pairs) => {
        const file = encodeSafetensors(tensors, new Map(pairs));
        const view = parseSafetensors(file);
        const read = [...view.entries.keys()].map((name) => {
          const { dtype, shape, bytes } = view.read(name);
          return { name, dtype, shape, data: bytes };
        });
        const byName = (a: { name: string }, b: { name: string }) => (a.name < b.name ? -1 : 1);
        expect([...read].sort(byName)).toEqual([...tensors].sort(byName));
        expect(new Map(view.metadata)).toEqual(new Map(pairs));
        expect(hex(encodeSafetensors(read, view.metadata))).toBe(hex(file));
        expect(hex(await stream(tensors, new Map(pairs)))).toBe(hex(file));
      }),
      { seed: 20, numRuns: 200 },
    );
  });
});
