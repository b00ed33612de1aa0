// Tensors of this library into the format and back by name, and reading many tensors piece by piece.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";

import {
  bytesSource,
  cpuStateDict,
  cpuTensor,
  encodeSafetensors,
  loadSafetensors,
  openSafetensors,
  openSafetensorsFile,
  readMetadata,
  readPieces,
  saveSafetensors,
  saveSafetensorsFile,
  tensorStreams,
  toFloat32,
} from "../../src/formats/safetensors/index.node.js";
import { Linear, Sequential } from "../../src/nn/index.js";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "safetensors-container-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

test("cpuTensor copies: a change of the original does not reach the copy", () => {
  const data = Float32Array.of(1, 2);
  const copy = cpuTensor({ dtype: "float32", shape: [2], data });
  data[0] = 9;
  expect(copy.dtype).toBe("F32");
  expect(copy.shape).toEqual([2]);
  expect(toFloat32(copy)).toEqual(Float32Array.of(1, 2));
});

test("cpuTensor narrows float16, which lives in float32 arrays here", () => {
  const data = Float32Array.from({ length: 300_000 }, (_, i) => (i % 2048) / 4);
  const copy = cpuTensor({ dtype: "float16", shape: [data.length], data });
  expect([copy.dtype, copy.bytes.byteLength]).toEqual(["F16", 600_000]);
  expect(toFloat32(copy)).toEqual(data);
});

test("cpuStateDict gives every value memory of its own, and names are texts", () => {
  const shared = Float32Array.of(1, 2);
  const tied = { dtype: "float32", shape: [2], data: shared } as const;
  const state = cpuStateDict(
    new Map<unknown, typeof tied>([
      ["wte", tied],
      [7, tied],
    ]),
  );
  expect([...state.keys()]).toEqual(["wte", "7"]);
  expect(state.get("wte")!.bytes.buffer).not.toBe(state.get("7")!.bytes.buffer);
  expect([...cpuStateDict({ a: tied }).keys()]).toEqual(["a"]);
});

test("a module's state dict is saved under its names and comes back with the same values", async () => {
  const path = join(folder, "m.safetensors");
  const model = new Sequential(new Linear(3, 2), new Linear(2, 1));
  await saveSafetensors(model.stateDict(), path, { kind: "mlp" });
  const loaded = await loadSafetensors(path);
  expect([...loaded.keys()].sort()).toEqual([...model.stateDict().keys()].sort());
  for (const [name, { data }] of model.stateDict()) expect(toFloat32(loaded.get(name)!)).toEqual(data);
  expect([...(await readMetadata(path))]).toEqual([["kind", "mlp"]]);
  // What was loaded can be saved again, and gives the same file.
  await saveSafetensors(loaded, join(folder, "again.safetensors"), { kind: "mlp" });
  expect(await loadSafetensors(join(folder, "again.safetensors"))).toEqual(loaded);
});

test("tied tensors are written under each of their names", async () => {
  const path = join(folder, "m.safetensors");
  const tied = { dtype: "float32", shape: [2], data: Float32Array.of(1, 2) } as const;
  await saveSafetensors(
    new Map([
      ["a", tied],
      ["b", tied],
    ]),
    path,
  );
  expect([...(await loadSafetensors(path)).keys()]).toEqual(["a", "b"]);
});

const tensors = [
  {
    name: "a",
    dtype: "F32" as const,
    shape: [20_000],
    data: Float32Array.from({ length: 20_000 }, (_, i) => i),
  },
  { name: "b", dtype: "U8" as const, shape: [5], data: Uint8Array.of(1, 2, 3, 4, 5) },
  { name: "c", dtype: "F32" as const, shape: [0], data: new Float32Array(0) },
];

/** The pieces put together again; each is copied, since the next may take its place. */
async function gather(pieces: AsyncIterable<{ entry: { name: string }; bytes: Uint8Array }>) {
  const out = new Map<string, number[]>();
  for await (const { entry, bytes } of pieces) {
    const gathered = out.get(entry.name) ?? [];
    out.set(entry.name, gathered);
    for (const byte of bytes) gathered.push(byte);
  }
  return out;
}

const wanted = new Map(
  tensors.map(({ name, data }) => [name, [...new Uint8Array(data.buffer, data.byteOffset, data.byteLength)]]),
);

test.each([1024, 1000 * 16, 2 ** 20])(
  "pieces of %i bytes make up every tensor, of files and of memory",
  async (pieceBytes) => {
    const path = join(folder, "m.safetensors");
    await saveSafetensorsFile(path, tensors);
    const file = await openSafetensorsFile(path);
    expect(await gather(readPieces(file, undefined, { pieceBytes }))).toEqual(wanted);
    await file.close();
    const memory = await openSafetensors(bytesSource(encodeSafetensors(tensors)));
    expect(await gather(readPieces(memory, ["b", "a", "c"], { pieceBytes, ahead: 0 }))).toEqual(wanted);
  },
);

test("pieces are aligned for any typed array", async () => {
  const shifted = [{ name: "0", dtype: "U8" as const, shape: [3], data: Uint8Array.of(1, 2, 3) }, ...tensors];
  const reader = await openSafetensors(bytesSource(encodeSafetensors(shifted)));
  for await (const { bytes } of readPieces(reader)) expect(bytes.byteOffset % 16).toBe(0);
});

test("a copy through pieces is the same file, byte for byte", async () => {
  const [from, to] = [join(folder, "from.safetensors"), join(folder, "to.safetensors")];
  await saveSafetensorsFile(from, tensors, { k: "v" });
  const reader = await openSafetensorsFile(from);
  await saveSafetensorsFile(to, tensorStreams(reader, undefined, { pieceBytes: 4096 }), reader.metadata);
  await reader.close();
  expect(await loadSafetensors(to)).toEqual(await loadSafetensors(from));
});

test("whoever stops early leaves no read behind", async () => {
  const path = join(folder, "m.safetensors");
  await saveSafetensorsFile(path, tensors);
  const reader = await openSafetensorsFile(path);
  for await (const piece of readPieces(reader, undefined, { pieceBytes: 64 })) if (piece.begin > 0) break;
  await reader.close();
});
