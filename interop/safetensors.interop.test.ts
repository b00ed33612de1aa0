// Files of ours read by Python's safetensors and torch, and theirs read by us: every dtype that both sides have, values
// and bits, metadata, scalars, empty tensors, sharded sets.
// Needs SPEEDTRONIC_PYTHON, which run-tests.sh sets.

import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  encodeSafetensors,
  loadSafetensors,
  openShardedSafetensorsFiles,
  readMetadata,
  type SafetensorsDtype,
  saveSafetensorsFile,
  type TensorInput,
  toFloat32,
} from "../src/formats/safetensors/index.node.js";
import { writeShards } from "../src/interchange/tools/output.node.js";

/** What one side has read: dtype, shape and bytes of each tensor, and its values where torch converts them. */
interface Reading {
  metadata: Record<string, string>;
  tensors: Record<string, { dtype: string; shape: number[]; hex: string; values?: (number | string)[] }>;
}

/** Dtypes of the format that torch has, with a name for each. */
const dtypes: readonly SafetensorsDtype[] = [
  "BOOL",
  "U8",
  "I8",
  "U16",
  "I16",
  "U32",
  "I32",
  "U64",
  "I64",
  "F16",
  "BF16",
  "F32",
  "F64",
  "C64",
  "F8_E4M3",
  "F8_E5M2",
  "F8_E4M3FNUZ",
  "F8_E5M2FNUZ",
  "F8_E8M0",
];
const widths: Record<string, number> = { BOOL: 1, U8: 1, I8: 1, C64: 8 };
const widthOf = (dtype: string) =>
  widths[dtype] ?? (dtype.startsWith("F8") ? 1 : Number(/\d+/.exec(dtype)![0]) / 8);

let scratch = "";
beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), "speedtronic-safetensors-"));
});
afterAll(async () => {
  await rm(scratch, { recursive: true, force: true });
});

async function python(...args: string[]): Promise<string> {
  const program = process.env.SPEEDTRONIC_PYTHON;
  if (!program) throw new Error("SPEEDTRONIC_PYTHON is not set; run these tests with interop/run-tests.sh");
  const script = fileURLToPath(new URL("safetensors_files.py", import.meta.url));
  const { stdout } = await promisify(execFile)(program, [script, ...args], { maxBuffer: 2 ** 26 });
  return stdout;
}

/** Every bit pattern of one byte, so that each dtype gets ordinary and odd values; booleans are 0 and 1 only. */
function tensorsOfEveryDtype(): TensorInput[] {
  const tensors = dtypes.flatMap((dtype): TensorInput[] => {
    const width = widthOf(dtype);
    const bytes = Uint8Array.from({ length: 256 * 2 }, (_, i) =>
      dtype === "BOOL" ? i % 2 : width === 1 ? i : (i * 37 + (i >> 3)) & 0xff,
    );
    return [
      { name: `${dtype}.matrix`, dtype, shape: [2, bytes.byteLength / width / 2], data: bytes },
      { name: `${dtype}.scalar`, dtype, shape: [], data: bytes.subarray(width, 2 * width) },
      { name: `${dtype}.empty`, dtype, shape: [0, 3], data: new Uint8Array(0) },
    ];
  });
  return [...tensors, { name: "ünïcode 名", dtype: "F32", shape: [1], data: Float32Array.of(1) }];
}

const hexOf = (bytes: ArrayBufferView) =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("hex");

/** Python's text for a float32, as a number. */
const parsed = (value: number | string) =>
  typeof value === "number" ? value : Number(value.replace("inf", "Infinity"));

async function compare(path: string, reading: Reading): Promise<void> {
  const ours = await loadSafetensors(path);
  expect([...ours.keys()].sort()).toEqual(Object.keys(reading.tensors).sort());
  expect(Object.fromEntries(await readMetadata(path))).toEqual(reading.metadata);
  for (const [name, theirs] of Object.entries(reading.tensors)) {
    const tensor = ours.get(name)!;
    const found = { name, dtype: tensor.dtype, shape: [...tensor.shape], hex: hexOf(tensor.bytes) };
    expect(found).toEqual({ name, dtype: theirs.dtype, shape: theirs.shape, hex: theirs.hex });
    if (theirs.values === undefined) continue;
    const values = toFloat32(tensor);
    expect([name, ...values]).toEqual([name, ...theirs.values.map((value) => Math.fround(parsed(value)))]);
  }
}

describe("safetensors", () => {
  it("of ours: Python reads every dtype, bit for bit, and torch has the same values", async () => {
    const path = join(scratch, "ours.safetensors");
    const tensors = tensorsOfEveryDtype();
    await saveSafetensorsFile(path, tensors, { format: "pt", kéy: "välue\n" });
    const reading = JSON.parse(await python("read", path)) as Reading;
    expect(Object.keys(reading.tensors)).toHaveLength(tensors.length);
    for (const { name, data } of tensors)
      expect([name, reading.tensors[name]!.hex]).toEqual([name, hexOf(data)]);
    await compare(path, reading);
  });

  it("of theirs: we read every dtype, bit for bit, with the same values", async () => {
    const path = join(scratch, "theirs.safetensors");
    const reading = JSON.parse(await python("write", path)) as Reading;
    const found = new Set(Object.values(reading.tensors).map(({ dtype }) => dtype));
    expect([...found].sort()).toEqual([...dtypes].sort());
    await compare(path, reading);
  });

  it("the same state gives the same bytes on both sides", async () => {
    const path = join(scratch, "again.safetensors");
    const state = [...(await loadSafetensors(join(scratch, "theirs.safetensors")))];
    const tensors = state.map(([name, { dtype, shape, bytes }]) => ({ name, dtype, shape, data: bytes }));
    // One key: their order of several is random.
    await python("rewrite", join(scratch, "theirs.safetensors"), path);
    expect(hexOf(encodeSafetensors(tensors, { only: "one" }))).toBe((await readFile(path)).toString("hex"));
  });

  it("a sharded set of ours is found by its index", async () => {
    const folder = join(scratch, "sharded");
    const tensors = tensorsOfEveryDtype();
    const { files } = await writeShards(folder, tensors, 2000);
    expect(files.length).toBeGreaterThan(3);
    const reading = JSON.parse(await python("read-sharded", folder)) as Reading;
    for (const { name, data } of tensors)
      expect([name, reading.tensors[name]!.hex]).toEqual([name, hexOf(data)]);
    const ours = await openShardedSafetensorsFiles(join(folder, "model.safetensors.index.json"));
    expect(ours.entries.size).toBe(tensors.length);
    await ours.close();
  });
});
