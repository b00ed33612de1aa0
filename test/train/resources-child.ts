// Trains on the onnx backend in its worker and prints, as JSON, what the process holds around two steps. Run with
// --expose-gc. Arguments: output folder, early step, late step, and `demo` (the demo's model), `one` or `many` (a tiny
// one, with one shape of batches or with many).

import { readdirSync } from "node:fs";
import { trainFromConfig } from "../../src/index.js";

interface Sample {
  readonly rss: number;
  readonly arrayBuffers: number;
  readonly heapUsed: number;
  readonly descriptors: number;
  readonly resources: Readonly<Record<string, number>>;
}

const [outputDir, early, late, shapes] = process.argv.slice(2) as [
  string,
  string,
  string,
  "demo" | "one" | "many",
];
/** Samples are taken at as many steps in a row, because one alone catches the allocator at a chance moment. */
const window = 21;
const isDemo = shapes === "demo";
const lengths = isDemo ? [128] : shapes === "one" ? [8] : Array.from({ length: 10 }, (_, i) => i + 7);
const model = isDemo
  ? { vocab_size: 256, max_seq_len: 128, n_layer: 4, n_head: 6, d_model: 192, d_ff: 768, dropout: 0.1 }
  : { vocab_size: 32, max_seq_len: 16, n_layer: 2, n_head: 2, d_model: 32, d_ff: 64, dropout: 0.1 };

function sample(): Sample {
  globalThis.gc!();
  const { rss, arrayBuffers, heapUsed } = process.memoryUsage();
  const resources: Record<string, number> = {};
  for (const type of process.getActiveResourcesInfo()) resources[type] = (resources[type] ?? 0) + 1;
  const descriptors = process.platform === "linux" ? readdirSync("/proc/self/fd").length : 0;
  return { rss, arrayBuffers, heapUsed, descriptors, resources };
}

const taken: Record<string, Sample[]> = { [early]: [], [late]: [] };
const last = Number(late) + window - 1;
await trainFromConfig(
  {
    run: { max_steps: last, output_dir: outputDir, threads: isDemo ? 2 : 1 },
    model,
    data: { micro_batch_size: 2, target_batch_size: 4, shuffle: true, num_workers: 1 },
    // Far enough from both windows that no save is under way in them.
    checkpoint: { every_steps: 80, keep_last: 2 },
  },
  {
    dataset: {
      length: 40,
      get: (index) => {
        const length = lengths[Math.floor(index / 2) % lengths.length]!;
        const ids = Int32Array.from({ length: length + 1 }, (_, i) => (index * 7 + i * i) % 32);
        return { inputIds: ids.subarray(0, length), labels: ids.subarray(1) };
      },
      describe: () => ({ kind: "resources", shapes }),
    },
    hooks: [
      (event, payload) => {
        if (event !== "train_step") return;
        const step = payload.step as number;
        for (const [from, samples] of Object.entries(taken))
          if (step >= Number(from) && step < Number(from) + window) samples.push(sample());
      },
    ],
  },
);
console.log(
  JSON.stringify({ early: taken[early], late: taken[late], after: process.getActiveResourcesInfo() }),
);
