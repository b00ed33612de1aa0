// One process of the safetensors benchmark: opens, reads and saves a file through the built package and prints one
// JSON line. Arguments: the file, a folder for copies, threads (unused: reading runs beside the summing anyway).

import { rmSync } from "node:fs";
import { join } from "node:path";
import {
  loadSafetensors,
  openSafetensorsFile,
  readPieces,
  saveSafetensors,
} from "../dist/formats/safetensors/index.node.js";

const [file, folder] = process.argv.slice(2);

// The sum of float32 values with vector instructions, as torch has it: four vectors of running sums, added up in
// float64 after every 1024 values. sum(offset, count) over the memory "env.memory".
const sumModule = [
  "AGFzbQEAAAABBwFgAn9/AXwCDwEDZW52Bm1lbW9yeQIAAAMCAQAHEAIDc3VtAAAGbWVtb3J5AgAKkgIBjwIDBHsBfAF/IAAgAUEC",
  "dGohBwNAIABBgCBqIgEgB00EQP0MAAAAAAAAAAAAAAAAAAAAACEC/QwAAAAAAAAAAAAAAAAAAAAAIQP9DAAAAAAAAAAAAAAAAAAA",
  "AAAhBP0MAAAAAAAAAAAAAAAAAAAAACEFA0AgACABSQRAIAIgAP0ABAD95AEhAiADIAD9AAQQ/eQBIQMgBCAA/QAEIP3kASEEIAUg",
  "AP0ABDD95AEhBSAAQUBrIQAMAQsLIAYgAiAD/eQBIAQgBf3kAf3kASIC/R8AuyAC/R8Bu6AgAv0fArugIAL9HwO7oKAhBgwBCwsD",
  "QCAAIAdJBEAgBiAAKgIAu6AhBiAAQQRqIQAMAQsLIAYL",
].join("");
const [pieceBytes, ahead] = [2 ** 21, 2];
const memory = new WebAssembly.Memory({ initial: ((ahead + 1) * pieceBytes) / 65_536 });
const { instance } = await WebAssembly.instantiate(Buffer.from(sumModule, "base64"), { env: { memory } });
const buffers = Array.from(
  { length: ahead + 1 },
  (_, i) => new Uint8Array(memory.buffer, i * pieceBytes, pieceBytes),
);

/** Of one piece; those of small tensors come in memory of their own. */
function sum(bytes) {
  if (bytes.buffer === memory.buffer) return instance.exports.sum(bytes.byteOffset, bytes.byteLength / 4);
  return floats(bytes).reduce((total, value) => total + value, 0);
}

/** Of a tensor anywhere in memory, through the buffers. */
function sumWhole(bytes) {
  let total = 0;
  for (let begin = 0; begin < bytes.byteLength; begin += pieceBytes) {
    const part = bytes.subarray(begin, begin + pieceBytes);
    buffers[0].set(part);
    total += instance.exports.sum(buffers[0].byteOffset, part.byteLength / 4);
  }
  return total;
}

const floats = ({ buffer, byteOffset, byteLength }) => new Float32Array(buffer, byteOffset, byteLength / 4);

async function timed(repeats, work, before = () => {}) {
  const times = [];
  for (let i = 0; i < repeats; i++) {
    before();
    const start = performance.now();
    await work();
    times.push(performance.now() - start);
  }
  return times;
}

let listed = 0;
const openMs = await timed(200, async () => {
  const reader = await openSafetensorsFile(file);
  for (const { dtype, shape } of reader.entries.values()) listed += dtype.length + shape.length;
  await reader.close();
});

let total = 0;
const readMs = await timed(5, async () => {
  const sums = new Map();
  const reader = await openSafetensorsFile(file);
  for await (const { entry, bytes } of readPieces(reader, undefined, { pieceBytes, ahead, buffers }))
    sums.set(entry.name, (sums.get(entry.name) ?? 0) + sum(bytes));
  await reader.close();
  total = [...sums.values()].reduce((a, b) => a + b, 0);
});
const rssMb = process.resourceUsage().maxRSS / 1024;

let state = new Map();
const loadMs = await timed(
  3,
  async () => {
    state = await loadSafetensors(file);
    for (const { bytes } of state.values()) listed += sumWhole(bytes);
  },
  () => {
    state = new Map();
  },
);

const copy = join(folder, "ours.safetensors");
const fresh = () => rmSync(copy, { force: true });
const saveMs = await timed(3, () => saveSafetensors(state, copy, {}, { durable: false }), fresh);
const saveFsyncMs = await timed(3, () => saveSafetensors(state, copy), fresh);
fresh();

console.log(
  JSON.stringify({
    first_open_ms: openMs.slice(0, 1),
    open_ms: openMs.slice(1),
    read_ms: readMs,
    load_ms: loadMs,
    save_ms: saveMs,
    save_fsync_ms: saveFsyncMs,
    rss_mb: rssMb,
    sum: total,
    versions: { node: process.versions.node },
    listed,
  }),
);
