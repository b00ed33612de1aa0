// One process of the safetensors benchmark: opens, reads and saves a file through the built package and prints one
// JSON line. Arguments: the file, a folder for copies, threads that read and sum.

import { rmSync } from "node:fs";
import { join } from "node:path";
import { importBuilt } from "./dist.mjs";
import { startSummers, sumWhole } from "./safetensors-sums.mjs";

const { loadSafetensors, openSafetensorsFile, saveSafetensors } = await importBuilt(
  "formats/safetensors/index.node.js",
);

const [file, folder, threads] = process.argv.slice(2);

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

const opened = await openSafetensorsFile(file);
const tensorCount = opened.entries.size;
await opened.close();
// As torch does, the threads are there before the first sum; the first of the five reads is cold on both sides.
const summers = await startSummers(file, tensorCount, Number(threads));
let total = 0;
const readMs = await timed(5, () => {
  total = summers.sumTensors().reduce((a, b) => a + b, 0);
});
await summers.close();
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
