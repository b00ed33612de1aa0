// One process of the checkpoint benchmark: trains a size with periodic saves, then saves and loads the same state
// with nothing else going on, through the built package. Prints one JSON line.
// Arguments: the size as JSON (see sizes.ts), threads, folder.

import { join } from "node:path";
import { CheckpointStore, loadCheckpoint } from "../dist/checkpoint/index.js";
import { buildRuntime } from "../dist/index.js";

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
await runtime.close();

const path = saved.at(-1).path;
const { content } = await loadCheckpoint(path);
const arrays = [...content.model.values(), ...content.optimizer.values()].map(({ data }) => data);
const unique = [...new Set(arrays)];
const target = unique.map((data) => new data.constructor(data.length));
const copy = () => {
  for (const [i, data] of unique.entries()) target[i].set(data);
};

async function timed(repeats, work) {
  const times = [];
  for (let i = 0; i < repeats; i++) {
    const start = performance.now();
    await work(i);
    times.push(performance.now() - start);
  }
  return times;
}

copy();
const store = new CheckpointStore({ directory: join(folder, "alone"), keepLast: 1, runId: "bench" });
let step = content.trainer.step;
const copyMs = await timed(5, copy);
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
    copy_ms: copyMs,
    save_ms: saveMs,
    load_ms: loadMs,
    versions: { node: process.versions.node },
  }),
);
