// Every rule of the strict reader, each with a file made to break or to stretch it.

import { describe, expect, test } from "vitest";

import {
  blobSource,
  bytesSource,
  encodeSafetensors,
  openSafetensors,
  parseSafetensors,
  SAFETENSORS_DTYPES,
  SafetensorsError,
} from "../../src/formats/safetensors/index.js";
import { craft, entry } from "./craft.js";

const W = entry("w", "F32", "[2]", 0, 8);

/** What a test compares: names, dtypes, shapes, offsets, metadata. */
function summarize(bytes: Uint8Array) {
  const view = parseSafetensors(bytes);
  return {
    tensors: [...view.entries.values()].map(
      (e) => `${e.name} ${e.dtype} [${e.shape}] ${e.dataOffsets.join("-")}`,
    ),
    metadata: Object.fromEntries(view.metadata),
  };
}

function failure(bytes: Uint8Array): SafetensorsError {
  try {
    parseSafetensors(bytes, "m.safetensors");
  } catch (error) {
    if (error instanceof SafetensorsError) return error;
    throw error;
  }
  return expect.fail("the file should have been refused");
}

describe("accepted", () => {
  const plain = { tensors: ["w F32 [2] 0-8"], metadata: {} };
  test.each<[string, Uint8Array, ReturnType<typeof summarize>]>([
    ["header without padding", craft(`{${W}}`, 8), plain],
    [
      "blanks and line ends around tokens",
      craft(` \n{\t"w" : {"dtype":"F32" , "shape": [ 2 ],\r"data_offsets":[0 ,8]} } \n`, 8),
      plain,
    ],
    ["metadata null", craft(`{"__metadata__":null,${W}}`, 8), plain],
    ["metadata empty", craft(`{"__metadata__":{},${W}}`, 8), plain],
    ["metadata last", craft(`{${W},"__metadata__":{"a":"b"}}`, 8), { ...plain, metadata: { a: "b" } }],
    [
      "unknown fields of any kind",
      craft(`{"w":{"x":[1,-2.5e3,true,null,{"y":"z"}],"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 8),
      plain,
    ],
    ["empty tensor set", craft("{}"), { tensors: [], metadata: {} }],
    ["empty name", craft(`{${entry("", "U8", "[1]", 0, 1)}}`, 1), { tensors: [" U8 [1] 0-1"], metadata: {} }],
    ["scalar", craft(`{${entry("s", "F64", "[]", 0, 8)}}`, 8), { tensors: ["s F64 [] 0-8"], metadata: {} }],
    [
      "empty tensors before, between and after others, in any order",
      craft(
        `{${entry("c", "F32", "[0,3]", 8, 8)},${W},${entry("b", "I8", "[5,0]", 0, 0)},${entry("d", "I8", "[1]", 8, 9)}}`,
        9,
      ),
      { tensors: ["b I8 [5,0] 0-0", "w F32 [2] 0-8", "c F32 [0,3] 8-8", "d I8 [1] 8-9"], metadata: {} },
    ],
    [
      "data that is not aligned",
      craft(`{${entry("b", "U8", "[1]", 0, 1)},${entry("w", "F32", "[1]", 1, 5)}}`, 5),
      { tensors: ["b U8 [1] 0-1", "w F32 [1] 1-5"], metadata: {} },
    ],
    [
      "packed 4- and 6-bit floats",
      craft(`{${entry("a", "F4", "[6]", 0, 3)},${entry("b", "F6_E2M3", "[4]", 3, 6)}}`, 6),
      { tensors: ["a F4 [6] 0-3", "b F6_E2M3 [4] 3-6"], metadata: {} },
    ],
  ])("%s", (_name, bytes, expected) => {
    expect(summarize(bytes)).toEqual(expected);
  });

  test("every dtype of the format", () => {
    for (const dtype of SAFETENSORS_DTYPES) {
      const file = encodeSafetensors([{ name: "t", dtype, shape: [0], data: new Uint8Array(0) }]);
      expect(summarize(file).tensors).toEqual([`t ${dtype} [0] 0-0`]);
    }
  });

  test("names of object internals are names like others", () => {
    const names = ["__proto__", "constructor", "hasOwnProperty", "toString"];
    const header = names.map((name, i) => entry(name, "U8", "[1]", i, i + 1)).join(",");
    const view = parseSafetensors(
      craft(`{"__metadata__":{"__proto__":"p"},${header}}`, Uint8Array.of(10, 11, 12, 13)),
    );
    expect([...view.entries.keys()]).toEqual(names);
    expect([...view.metadata]).toEqual([["__proto__", "p"]]);
    expect(names.map((name) => [...view.read(name).bytes])).toEqual([[10], [11], [12], [13]]);
  });

  test("escapes in names and metadata are decoded", () => {
    const text = `{"__metadata__":{"k\\n":"\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\uD83D\\uDE00 é"},"\\u0077":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`;
    expect(summarize(craft(text, 8))).toEqual({
      tensors: ["w F32 [2] 0-8"],
      metadata: { "k\n": '"\\/\b\f\n\r\té😀 é' },
    });
  });

  test("nesting up to 127 levels in unknown fields", () => {
    const nested = (levels: number) =>
      `{"w":{"x":${"[".repeat(levels)}${"]".repeat(levels)},"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`;
    expect(summarize(craft(nested(125), 8))).toEqual(plain);
    expect(failure(craft(nested(126), 8))).toMatchObject({ code: "safetensors.header_syntax" });
    expect(failure(craft(nested(1_000_000), 8))).toMatchObject({ code: "safetensors.header_syntax" });
  });
});

describe("refused", () => {
  const two53 = "9007199254740993";
  test.each<[string, Uint8Array, string, string]>([
    ["an empty file", new Uint8Array(0), "truncated", "file is truncated: have 0 of 8 bytes"],
    ["a file of 7 bytes", new Uint8Array(7), "truncated", "file is truncated: have 7 of 8 bytes"],
    [
      "a header that does not end",
      craft(`{${W}}`, 0, 5000n),
      "truncated",
      "file is truncated: have 62 of 5008 bytes (at byte 0)",
    ],
    [
      "data that does not end",
      craft(`{${W}}`, 7),
      "truncated",
      "file is truncated: have 69 of 70 bytes (at byte 69)",
    ],
    [
      "a header above 100,000,000 bytes",
      craft("{}", 0, 100_000_001n),
      "header_too_large",
      "100000001 is above the format's limit",
    ],
    [
      "the largest length field",
      craft("{}", 0, 2n ** 64n - 1n),
      "header_too_large",
      "18446744073709551615 is above",
    ],
    ["an empty header", craft(""), "header_syntax", "the header must be a JSON object (at byte 8)"],
    [
      "bytes that are not UTF-8",
      craft(Uint8Array.of(0x7b, 0x22, 0xff, 0x22, 0x7d)),
      "header_encoding",
      "the JSON text is not valid UTF-8",
    ],
    [
      "overlong UTF-8",
      craft(Uint8Array.of(0x7b, 0x22, 0xc0, 0x80, 0x22, 0x7d)),
      "header_encoding",
      "the JSON text is not valid UTF-8",
    ],
    [
      "a surrogate as UTF-8",
      craft(Uint8Array.of(0x7b, 0x22, 0xed, 0xa0, 0x80, 0x22, 0x7d)),
      "header_encoding",
      "the JSON text is not valid UTF-8",
    ],
    ["a byte order mark", craft(`\uFEFF{${W}}`, 8), "header_syntax", "must be a JSON object"],
    ["an array", craft("[]"), "header_syntax", "must be a JSON object"],
    ["a number", craft("1"), "header_syntax", "must be a JSON object"],
    ["text after the object", craft(`{${W}}x`, 8), "header_syntax", "text after the end"],
    ["zero bytes after the object", craft(`{${W}}\0`, 8), "header_syntax", "text after the end"],
    ["an object without an end", craft(`{${W}`, 8), "header_syntax", 'expected "}", found the end'],
    ["a trailing comma", craft(`{${W},}`, 8), "header_syntax", "expected a key in double quotes"],
    ["single quotes", craft("{'w':1}"), "header_syntax", "expected a key in double quotes"],
    ["a comment", craft(`{/**/${W}}`, 8), "header_syntax", "expected a key"],
    ["a string without an end", craft('{"w'), "header_syntax", "string without an end"],
    ["a string that ends in a backslash", craft('{"w\\'), "header_syntax", "unknown escape"],
    ["a raw line end in a string", craft('{"w\n":1}'), "header_syntax", "control character in a string"],
    [
      "a raw control character after an escape",
      craft('{"\\n\u0001":1}'),
      "header_syntax",
      "control character in a string",
    ],
    ["an unknown escape", craft('{"\\x41":1}'), "header_syntax", "unknown escape"],
    ["a short \\u escape", craft('{"\\u12g4":1}'), "header_syntax", "four hexadecimal digits"],
    ["half a surrogate pair", craft('{"\\ud800":1}'), "header_syntax", "half a surrogate pair"],
    ["a low surrogate alone", craft('{"\\udc00":1}'), "header_syntax", "half a surrogate pair"],
    ["two high surrogates", craft('{"\\ud800\\ud800":1}'), "header_syntax", "half a surrogate pair"],
    ["a bad word", craft('{"w":{"x":nul}}'), "header_syntax", "expected a value"],
    ["a bad number", craft('{"w":{"x":+1}}'), "header_syntax", "expected a value"],
    ["a number without bounds", craft('{"w":{"x":1e999}}'), "overflow", "1e999 is out of range"],
    ["a tensor name twice", craft(`{${W},${W}}`, 8), "duplicate_key", 'key "w" appears twice'],
    [
      "a name twice, once escaped",
      craft(`{${W},"\\u0077":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 8),
      "duplicate_key",
      'key "w" appears twice',
    ],
    [
      "metadata twice",
      craft(`{"__metadata__":{},"__metadata__":{},${W}}`, 8),
      "duplicate_key",
      "__metadata__",
    ],
    [
      "a metadata key twice",
      craft(`{"__metadata__":{"a":"1","a":"2"},${W}}`, 8),
      "duplicate_key",
      'key "a" appears twice in __metadata__',
    ],
    [
      "a field twice",
      craft('{"w":{"dtype":"F32","shape":[2],"shape":[2],"data_offsets":[0,8]}}', 8),
      "duplicate_key",
      '"shape" appears twice',
    ],
    [
      "an unknown field twice",
      craft('{"w":{"x":1,"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}}', 8),
      "duplicate_key",
      '"x" appears twice',
    ],
    [
      "a key twice in an unknown field",
      craft('{"w":{"x":{"a":1,"a":1},"dtype":"F32","shape":[2],"data_offsets":[0,8]}}', 8),
      "duplicate_key",
      '"a" appears twice',
    ],
    [
      "metadata that is a string",
      craft(`{"__metadata__":"a",${W}}`, 8),
      "invalid_metadata",
      "__metadata__ must be an object of strings",
    ],
    [
      "a metadata value that is a number",
      craft(`{"__metadata__":{"a":1},${W}}`, 8),
      "invalid_metadata",
      'value of "a" in __metadata__ must be a string',
    ],
    [
      "a metadata value that is null",
      craft(`{"__metadata__":{"a":null},${W}}`, 8),
      "invalid_metadata",
      "must be a string",
    ],
    ["an entry that is a list", craft('{"w":["F32",[2],[0,8]]}', 8), "invalid_entry", "must be an object"],
    ["an entry that is null", craft('{"w":null}'), "invalid_entry", "must be an object"],
    ["no dtype", craft('{"w":{"shape":[2],"data_offsets":[0,8]}}', 8), "invalid_entry", "dtype is missing"],
    ["no shape", craft('{"w":{"dtype":"F32","data_offsets":[0,8]}}', 8), "invalid_entry", "shape is missing"],
    ["no offsets", craft('{"w":{"dtype":"F32","shape":[2]}}', 8), "invalid_entry", "data_offsets is missing"],
    [
      "a dtype that is a number",
      craft('{"w":{"dtype":1,"shape":[2],"data_offsets":[0,8]}}', 8),
      "invalid_entry",
      "dtype must be a string",
    ],
    [
      "an unknown dtype",
      craft(`{${entry("w", "F33", "[2]", 0, 8)}}`, 8),
      "unknown_dtype",
      'unknown dtype "F33"',
    ],
    [
      "a dtype in lower case",
      craft(`{${entry("w", "f32", "[2]", 0, 8)}}`, 8),
      "unknown_dtype",
      'unknown dtype "f32"',
    ],
    [
      "a dtype named as an object's internals",
      craft(`{${entry("w", "constructor", "[2]", 0, 8)}}`, 8),
      "unknown_dtype",
      '"constructor"',
    ],
    [
      "a shape that is a number",
      craft(`{${entry("w", "F32", "2", 0, 8)}}`, 8),
      "invalid_entry",
      "shape must be an array",
    ],
    [
      "a negative dimension",
      craft(`{${entry("w", "F32", "[-2]", 0, 8)}}`, 8),
      "invalid_entry",
      "a dimension must be a non-negative integer",
    ],
    [
      "a negative zero",
      craft(`{${entry("w", "F32", "[-0]", 0, 0)}}`),
      "invalid_entry",
      "a dimension must be a non-negative integer",
    ],
    [
      "a dimension with a fraction",
      craft(`{${entry("w", "F32", "[2.0]", 0, 8)}}`, 8),
      "invalid_entry",
      "a dimension must be a non-negative integer",
    ],
    [
      "a dimension with an exponent",
      craft(`{${entry("w", "F32", "[2e0]", 0, 8)}}`, 8),
      "invalid_entry",
      "a dimension must be a non-negative integer",
    ],
    [
      "a dimension in quotes",
      craft(`{${entry("w", "F32", '["2"]', 0, 8)}}`, 8),
      "invalid_entry",
      "a dimension must be a non-negative integer",
    ],
    ["a leading zero", craft(`{${entry("w", "F32", "[02]", 0, 8)}}`, 8), "header_syntax", "leading zero"],
    [
      "a dimension above 2^53 - 1",
      craft(`{${entry("w", "F32", `[${two53},0]`, 0, 0)}}`),
      "overflow",
      `a dimension ${two53} is beyond 2^53 - 1`,
    ],
    [
      "dimensions whose product is above 2^53 - 1",
      craft(`{${entry("w", "U8", "[4294967296,4294967296]", 0, 8)}}`, 8),
      "overflow",
      "has more than 2^53 - 1 bits",
    ],
    [
      "a product that wraps to the right size in 64 bits",
      craft(`{${entry("w", "U8", "[4294967296,4294967296,4294967296]", 0, 0)}}`),
      "overflow",
      "has more than 2^53 - 1 bits",
    ],
    [
      "a count of 1.8e308",
      craft(`{${entry("w", "F32", `[${"9".repeat(309)}]`, 0, 8)}}`, 8),
      "overflow",
      "is beyond 2^53 - 1",
    ],
    [
      "one offset",
      craft('{"w":{"dtype":"F32","shape":[2],"data_offsets":[0]}}', 8),
      "invalid_entry",
      "must have 2 numbers, has 1",
    ],
    [
      "three offsets",
      craft('{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8,8]}}', 8),
      "invalid_entry",
      "must have 2 numbers, has 3",
    ],
    [
      "an offset above 2^53 - 1",
      craft(`{${entry("w", "F32", "[2]", two53, two53)}}`, 8),
      "overflow",
      `an offset ${two53} is beyond 2^53 - 1`,
    ],
    [
      "an end before the begin",
      craft(`{${entry("w", "F32", "[0]", 8, 0)}}`, 8),
      "invalid_entry",
      "end before they begin",
    ],
    [
      "fewer bytes than the shape takes",
      craft(`{${entry("w", "F32", "[3]", 0, 8)}}`, 8),
      "size_mismatch",
      "shape [3] of F32 takes 12 bytes, but data_offsets [0,8] span 8",
    ],
    [
      "more bytes than the shape takes",
      craft(`{${entry("w", "F32", "[1]", 0, 8)}}`, 8),
      "size_mismatch",
      "takes 4 bytes",
    ],
    [
      "packed floats that do not fill a byte",
      craft(`{${entry("w", "F4", "[3]", 0, 2)}}`, 2),
      "size_mismatch",
      "does not fill whole bytes",
    ],
    [
      "a hole at the start",
      craft(`{${entry("w", "F32", "[2]", 4, 12)}}`, 12),
      "hole",
      "leaves bytes 0 to 4 to no tensor",
    ],
    [
      "a hole between tensors",
      craft(`{${W},${entry("x", "U8", "[1]", 9, 10)}}`, 10),
      "hole",
      'tensor "x": data starts at 9',
    ],
    [
      "a hole before an empty tensor",
      craft(`{${W},${entry("x", "U8", "[0]", 9, 9)}}`, 9),
      "hole",
      'tensor "x": data starts at 9',
    ],
    ["bytes after the last tensor", craft(`{${W}}`, 9), "hole", "1 bytes after the last tensor"],
    ["data without tensors", craft("{}", 1), "hole", "1 bytes after the last tensor"],
    [
      "an overlap",
      craft(`{${W},${entry("x", "F32", "[2]", 4, 12)}}`, 12),
      "overlap",
      'tensor "x": data starts at 4, inside',
    ],
    [
      "two tensors on the same bytes",
      craft(`{${W},${entry("x", "F32", "[2]", 0, 8)}}`, 8),
      "overlap",
      'tensor "x"',
    ],
    [
      "an empty tensor inside another",
      craft(`{${W},${entry("x", "U8", "[0]", 4, 4)}}`, 8),
      "overlap",
      'tensor "x"',
    ],
  ])("%s", (_name, bytes, problem, message) => {
    const error = failure(bytes);
    expect({ code: error.code, exitCode: error.exitCode, file: error.file }).toEqual({
      code: `safetensors.${problem}`,
      exitCode: 4,
      file: "m.safetensors",
    });
    expect(error.message).toMatch(/^m\.safetensors: /);
    expect(error.message).toContain(message);
  });

  test("the error names tensor and byte position", () => {
    const error = failure(craft(`{"é":{"dtype":"F32","shape":[02],"data_offsets":[0,8]}}`, 8));
    // 8 bytes of length, then `{"é":{"dtype":"F32","shape":[` of which é takes two.
    expect(error).toMatchObject({
      tensor: "é",
      offset: 38,
      details: { file: "m.safetensors", tensor: "é", offset: 38 },
    });
  });

  test("names in messages cannot disturb a terminal", () => {
    const name = `a\u001b[31m\n${"x".repeat(1000)}`;
    const { message } = failure(craft(`{${JSON.stringify(name)}:null}`));
    expect(message).toMatch(/^[\x20-\x7e…]{1,260}$/);
  });
});

describe("speed of the header", () => {
  test("a header with a million brackets, quotes or digits is linear work", () => {
    const million = 1_000_000;
    const headers = [
      "{".repeat(million),
      `{"w":${"[".repeat(million)}`,
      `{"${"\\n".repeat(million)}`,
      `{"${"\\u".repeat(million)}`,
      `{"w":{"shape":[${"9".repeat(million)}]}}`,
      `{"w":{"x":${"9".repeat(million)}`,
      `{"w":{"x":${"-".repeat(million)}`,
      `{${" ".repeat(million)}`,
    ];
    expect(headers.map((header) => failure(craft(header)).code)).toEqual([
      "safetensors.header_syntax",
      "safetensors.invalid_entry",
      "safetensors.header_syntax",
      "safetensors.header_syntax",
      "safetensors.overflow",
      "safetensors.overflow",
      "safetensors.header_syntax",
      "safetensors.header_syntax",
    ]);
  });
});

describe("reading by ranges", () => {
  const data = Uint8Array.from({ length: 100 }, (_, i) => i);
  const file = craft(
    `{"__metadata__":{"k":"v"},${entry("a", "U8", "[60]", 0, 60)},${entry("b", "U8", "[40]", 60, 100)}}`,
    data,
  );
  const recording = (bytes: Uint8Array) => {
    const reads: [number, number][] = [];
    const source = bytesSource(bytes, "r.safetensors");
    const read = (offset: number, length: number) => {
      reads.push([offset, length]);
      return source.read(offset, length);
    };
    return { reads, source: { ...source, read } };
  };

  test("opening reads the start once, each tensor its own range only", async () => {
    const big = craft(
      `{${entry("a", "U8", "[70000]", 0, 70000)},${entry("b", "U8", "[30000]", 70000, 100000)}}`,
      100_000,
    );
    const { reads, source } = recording(big);
    const reader = await openSafetensors(source);
    const { dataStart } = reader;
    expect((await reader.read("b")).bytes.byteLength).toBe(30_000);
    expect(reads).toEqual([
      [0, 65536],
      [dataStart + 70_000, 30_000],
    ]);
  });

  test("a long header takes a second read", async () => {
    const names = Array.from({ length: 2000 }, (_, i) => `layer.${i}`);
    const header = `{${names.map((name, i) => entry(name, "U8", "[1]", i, i + 1)).join(",")}}`;
    const { reads, source } = recording(craft(header, 2000));
    const reader = await openSafetensors(source);
    expect([...reader.entries.keys()]).toEqual(names);
    expect(reads).toEqual([
      [0, 65536],
      [8, header.length],
    ]);
  });

  test.each([
    ["bytes", () => bytesSource(file)],
    ["a Blob", () => blobSource(new Blob([file as BlobPart]))],
  ])("from %s: whole, in pieces, a range, into a buffer", async (_name, makeSource) => {
    const reader = await openSafetensors(makeSource());
    expect(Object.fromEntries(reader.metadata)).toEqual({ k: "v" });
    expect(await reader.read("b")).toEqual({ dtype: "U8", shape: [40], bytes: data.slice(60) });
    expect(await reader.readRange("b", 5, 9)).toEqual(Uint8Array.of(65, 66, 67, 68));
    const pieces: number[][] = [];
    for await (const piece of reader.chunks("b", 16)) pieces.push([...piece]);
    expect(pieces.map((piece) => piece.length)).toEqual([16, 16, 8]);
    expect(pieces.flat()).toEqual([...data.slice(60)]);
    const target = new Float32Array(15);
    await reader.readInto("a", target);
    expect(new Uint8Array(target.buffer)).toEqual(data.slice(0, 60));
  });

  test("misuse is refused: unknown name, wrong buffer, range outside", async () => {
    const reader = await openSafetensors(bytesSource(file, "r.safetensors"));
    await expect(reader.read("c")).rejects.toMatchObject({
      code: "safetensors.tensor_not_found",
      message: 'r.safetensors: tensor "c": no such tensor; the file has 2 tensors',
    });
    await expect(reader.read("__proto__")).rejects.toMatchObject({ code: "safetensors.tensor_not_found" });
    await expect(reader.readInto("a", new Uint8Array(61))).rejects.toMatchObject({
      code: "safetensors.size_mismatch",
    });
    await expect(reader.readRange("b", 30, 41)).rejects.toThrow(
      "bytes 30 to 41 are outside of a tensor of 40 bytes",
    );
  });

  test("a source that ends early or gives too much is found out", async () => {
    const lie = (change: number) => ({
      sizeBytes: file.byteLength,
      name: "l.safetensors",
      read: async (offset: number, length: number) => {
        const isHead = offset === 0;
        return isHead ? file.subarray(0, length) : new Uint8Array(length + change);
      },
    });
    const short = await openSafetensors(lie(-1));
    await expect(short.read("a")).rejects.toMatchObject({
      code: "safetensors.truncated",
      tensor: "a",
      message: expect.stringMatching(
        /^l\.safetensors: tensor "a": file is truncated: have [0-9]+ of [0-9]+ bytes/,
      ),
    });
    await expect((await openSafetensors(lie(1))).read("a")).rejects.toMatchObject({
      code: "safetensors.source",
    });
  });
});

test("a Buffer is read as any bytes are, and tensors are plain Uint8Arrays", async () => {
  const file = Buffer.from(craft(`{${W}}`, 8));
  const reader = await openSafetensors(bytesSource(file));
  for (const { bytes } of [parseSafetensors(file).read("w"), await reader.read("w")]) {
    expect(bytes).toEqual(new Uint8Array(8));
    expect(bytes.buffer).toBe(file.buffer);
  }
});

test("an in-memory tensor is a view of the file, at any alignment of the file in its buffer", () => {
  const bytes = craft(`{${W}}`, Uint8Array.of(0, 0, 128, 63, 0, 0, 0, 64));
  for (const shift of [0, 1, 3]) {
    const buffer = new Uint8Array(bytes.byteLength + 8);
    buffer.set(bytes, shift);
    const tensor = parseSafetensors(buffer.subarray(shift, shift + bytes.byteLength)).read("w");
    expect(tensor.bytes.buffer).toBe(buffer.buffer);
    expect([...tensor.bytes]).toEqual([0, 0, 128, 63, 0, 0, 0, 64]);
  }
});
