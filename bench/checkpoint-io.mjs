// One process of the checkpoint benchmark: trains a size with periodic saves, then saves and loads the same state
// with nothing else going on, through the built package. Prints one JSON line.
// Arguments: the size as JSON (see sizes.ts), threads, folder.

import { join } from "node:path";
import { importBuilt } from "./dist.mjs";

const { CheckpointStore, loadCheckpoint } = await importBuilt("checkpoint/index.js");
const { buildRuntime } = await importBuilt("index.js");

const [sizeText, threads, folder] = process.argv.slice(2);
const size = JSON.parse(sizeText);
const [saves, every] = [4, 6];

const saved = [];
const steps = [];
const runtime = await buildRuntime(
  {
    run: { max_steps: saves * every + 3, threads: Number(threads), output_dir: join(folder, "run") },
    model: {
      vocab_size: size.vocab,
      max_seq_len: size.context,
      n_layer: size.layers,
      n_head: size.heads,
      d_model: size.width,
      d_ff: size.dFf,
    },
    data: { micro_batch_size: size.batch, num_tokens: 1000 },
    scheduler: { name: "constant", warmup_steps: 0 },
    checkpoint: { every_steps: every, keep_last: 2 },
  },
  {
    hooks: [
      (event, payload) => {
        if (event === "checkpoint") saved.push({ ...payload });
        if (event === "train_step") steps.push(1000 * payload.step_s);
      },
    ],
  },
);
await runtime.trainer.fit();
const { snapshotMs, copyMs } = await measureSnapshots(runtime.engine);
await runtime.close();

const path = saved.at(-1).path;
const { content } = await loadCheckpoint(path);

/** What training waits for, without training: by turns with a plain copy of the same values into memory that is there. */
async function measureSnapshots(engine) {
  const times = { snapshotMs: [], copyMs: [] };
  let { buffers } = await engine.snapshot();
  const sources = buffers.map((buffer) => new Float32Array(buffer));
  const targets = sources.map(({ length }) => new Float32Array(length).fill(1));
  for (let i = 0; i < 20; i++) {
    const start = performance.now();
    ({ buffers } = await engine.snapshot(buffers));
    const between = performance.now();
    for (const [index, source] of sources.entries()) targets[index].set(source);
    times.snapshotMs.push(between - start);
    times.copyMs.push(performance.now() - between);
  }
  return times;
}

async function timed(repeats, work) {
  const times = [];
  for (let i = 0; i < repeats; i++) {
    const start = performance.now();
    await work(i);
    times.push(performance.now() - start);
  }
  return times;
}

const store = new CheckpointStore({ directory: join(folder, "alone"), keepLast: 1, runId: "bench" });
let step = content.trainer.step;
const saveMs = await timed(3, () =>
  store.save({ ...content, trainer: { ...content.trainer, step: ++step } }),
);
const loadMs = await timed(3, () => loadCheckpoint(path));

console.log(
  JSON.stringify({
    path,
    size_bytes: saved.at(-1).size_bytes,
    // The first save finds its buffers not made yet.
    stall_ms: saved.filter(({ stall_s }) => stall_s !== undefined).map(({ stall_s }) => 1000 * stall_s),
    beside_ms: saved.map(({ save_s }) => 1000 * save_s),
    step_ms: steps,
    snapshot_ms: snapshotMs,
    copy_ms: copyMs,
    save_ms: saveMs,
    load_ms: loadMs,
    versions: { node: process.versions.node },
  }),
);
