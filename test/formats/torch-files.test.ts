// Files that real PyTorch wrote (interop/make_torch_fixtures.py): every tensor comes out with the bytes that PyTorch
// has for it, in both forms, whatever its type and strides; other values keep their meaning.

import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";

import { type ByteSource, bytesSource, toFloat32 } from "../../src/formats/safetensors/index.js";
import {
  looksLikeTorchFile,
  NumpyArray,
  openTorchFile,
  readTorchFile,
  TorchDtypeValue,
  TorchFileError,
  TorchTensor,
  type TorchValue,
} from "../../src/formats/torch/index.node.js";
import { pickle, tensor, torchZip } from "./torch-craft.js";

interface Expected {
  dtype: string;
  shape: number[];
  bytes: string;
}

const folder = new URL("../fixtures/torch/", import.meta.url);
const { files } = JSON.parse(readFileSync(new URL("expected.json", folder), "utf8")) as {
  files: Record<string, Record<string, Expected>>;
};
const bytesOf = (name: string) => new Uint8Array(readFileSync(new URL(name, folder)));
const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString("base64");

const ramp = (count: number) => new Uint8Array(Float32Array.from({ length: count }, (_, i) => i).buffer);

/** A source that counts what is read of it. */
function countingSource(bytes: Uint8Array): ByteSource & { readBytes: number } {
  const source = {
    name: "counted.pt",
    sizeBytes: bytes.byteLength,
    readBytes: 0,
    read: async (offset: number, length: number) => {
      source.readBytes += length;
      return bytes.slice(offset, offset + length);
    },
  };
  return source;
}

describe.each(Object.entries(files))("%s", (name, expected) => {
  test("has every tensor with its type, shape and bytes", async () => {
    const file = await openTorchFile(new URL(name, folder).pathname);
    expect(file.format).toBe(name.includes("legacy") ? "legacy" : "zip");
    const found = new Map([...file.tensors.tensors, ...file.withoutEntry]);
    expect([...found.keys()].sort()).toEqual(Object.keys(expected).sort());
    for (const [key, tensor] of found) {
      const { dtype, shape } = tensor;
      expect({ dtype, shape, bytes: base64(await file.readBytes(tensor)) }, key).toEqual(expected[key]);
    }
    for (const [key, entry] of file.tensors.entries) {
      const { bytes, shape } = await file.tensors.read(key);
      expect({ shape, bytes: base64(bytes) }).toEqual({
        shape: expected[key]!.shape,
        bytes: expected[key]!.bytes,
      });
      expect(entry).toMatchObject({ name: key, shape, sizeBytes: bytes.byteLength });
    }
    await file.close();
  });

  test("gives any range, and pieces of any size, of every tensor", async () => {
    const { tensors } = await readTorchFile(bytesSource(bytesOf(name)));
    for (const key of tensors.entries.keys()) {
      const whole = Buffer.from(expected[key]!.bytes, "base64");
      for (const [begin, end] of [
        [1, whole.byteLength - 1],
        [3, 3],
        [2, Math.ceil(whole.byteLength / 2)],
      ] as const) {
        if (begin > end || end > whole.byteLength) continue;
        expect(base64(await tensors.readRange(key, begin, end))).toBe(base64(whole.subarray(begin, end)));
      }
      const pieces: Uint8Array[] = [];
      for await (const piece of tensors.chunks(key, 7)) pieces.push(piece);
      expect(base64(Buffer.concat(pieces))).toBe(expected[key]!.bytes);
      const target = new Uint8Array(whole.byteLength);
      await tensors.readInto(key, target);
      expect(base64(target)).toBe(expected[key]!.bytes);
    }
  });
});

test.each(["zip", "legacy", "protocol5"])("other values keep their meaning (%s)", async (form) => {
  const { root, tensors } = await readTorchFile(bytesSource(bytesOf(`nested-${form}.pt`)));
  const at = (key: TorchValue) => (root as Map<TorchValue, TorchValue>).get(key);
  expect(at("step")).toBe(12345678901234567890123n);
  expect(at("small")).toBe(-3);
  expect(at("float")).toBe(0.1);
  expect(at("text")).toBe("grüße 😀");
  expect(at("flags")).toEqual([true, false, null]);
  expect(at("bytes")).toEqual(Uint8Array.of(0, 255, 128));
  expect(at("bytearray")).toEqual(Uint8Array.of(97, 98));
  expect(at("set")).toEqual(new Set([4]));
  expect(at("frozenset")).toEqual(new Set(["x"]));
  expect(at("size")).toEqual([2, 3]);
  expect(at("device")).toBe("cpu");
  expect(at("dtype")).toEqual(new TorchDtypeValue("bfloat16"));
  expect(at("default")).toEqual(new Map([["k", [1]]]));
  expect(at("counter")).toEqual(
    new Map([
      ["a", 2],
      ["b", 1],
    ]),
  );
  expect(at("numpy")).toEqual(new NumpyArray("u4", [4], new Uint8Array(Uint32Array.of(0, 1, 2, 3).buffer)));
  expect(at("numpy_scalar")).toBe(2.5);
  expect(at(5)).toBe("a key that is a number");
  expect([...(root as Map<TorchValue, TorchValue>).entries()].at(-1)).toEqual([
    [1, "two"],
    "a key that is a tuple",
  ]);
  expect(at("parameter")).toMatchObject({ requiresGrad: true, shape: [2, 2] });
  expect(at("annotated_parameter")).toMatchObject({ requiresGrad: false });
  expect((at("list") as TorchValue[])[1]).toEqual([expect.any(TorchTensor), 7]);
  expect([...tensors.aliases]).toEqual([["model.head.weight", "model.wte.weight"]]);
});

test("a part of a file is read under its own names", async () => {
  const file = await readTorchFile(bytesSource(bytesOf("nested-zip.pt"), "n.pt"));
  const model = file.tensorsAt("model");
  expect([...model.entries.keys()].slice(0, 2)).toEqual(["wte.weight", "head.weight"]);
  expect(model.entry("norm.num_batches_tracked").dtype).toBe("I64");
  expect([...file.tensorsAt("optimizer", "state", "1").entries.keys()]).toEqual([
    "step",
    "exp_avg",
    "exp_avg_sq",
  ]);
  expect(file.valueAt("optimizer", "param_groups", "0", "lr")).toBe(0.125);
  expect(() => file.tensorsAt("model", "nope")).toThrow(/n\.pt: "model" has no entry "nope"/);
  expect(() => model.entry("nope")).toThrow(TorchFileError);
  expect(() => model.entry("nope")).toThrow(/tensor "nope": no such tensor; there are 7/);
});

test("opening reads the description, not the tensors", async () => {
  const count = 250_000;
  const data = ramp(count);
  const bytes = torchZip(pickle(tensor("0", count, [500, 500], [1, 500])), { 0: data });
  const source = countingSource(bytes);
  const { tensors } = await readTorchFile(source);
  expect(source.readBytes).toBeLessThan(70_000);
  expect(tensors.entry("tensor")).toMatchObject({ shape: [500, 500], sizeBytes: 4 * count });
  const values = toFloat32(await tensors.read("tensor"));
  expect([values[0], values[1], values[500], values[501]]).toEqual([0, 500, 1, 501]);
});

test("rows that are long are read on their own", async () => {
  const [rows, columns] = [4, 20_000];
  const data = ramp(rows * columns);
  // The second half of every row.
  const shape = [rows, columns / 2];
  const bytes = torchZip(pickle(tensor("0", rows * columns, shape, [columns, 1], columns / 2)), { 0: data });
  const source = countingSource(bytes);
  const { tensors } = await readTorchFile(source);
  const before = source.readBytes;
  const values = toFloat32(await tensors.read("tensor"));
  expect(source.readBytes - before).toBeLessThan(4 * rows * (columns / 2) + 100);
  expect(values).toEqual(
    Float32Array.from(
      { length: values.length },
      (_, i) => Math.floor(i / 10_000) * columns + 10_000 + (i % 10_000),
    ),
  );
  const middle = await tensors.readRange("tensor", 39_998, 80_002);
  expect(base64(middle)).toBe(base64(new Uint8Array(values.buffer, 39_998, 40_004)));
});

test("looksLikeTorchFile knows both forms", () => {
  expect(looksLikeTorchFile(bytesOf("single-zip.pt"))).toBe(true);
  expect(looksLikeTorchFile(bytesOf("single-legacy.pt"))).toBe(true);
  expect(looksLikeTorchFile(new Uint8Array(Buffer.from('{"a":1}')))).toBe(false);
  expect(looksLikeTorchFile(new Uint8Array(0))).toBe(false);
});

test.each(["views-zip.pt", "views-legacy.pt"])("%s cut anywhere is refused, never misread", async (name) => {
  const bytes = bytesOf(name);
  for (let length = 0; length < bytes.byteLength; length += 7) {
    const error = await readTorchFile(bytesSource(bytes.slice(0, length), name)).then(
      () => undefined,
      (reason: unknown) => reason,
    );
    expect(error, `${length} bytes`).toBeInstanceOf(TorchFileError);
    expect((error as TorchFileError).code, `${length} bytes`).toBe("torch.truncated");
  }
});
