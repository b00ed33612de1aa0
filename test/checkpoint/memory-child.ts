// The program of a child process: trains one step of a model of middle size, fresh or resumed, and prints the most
// memory that the process had had by the end of that step, in bytes. Arguments: output folder, step to end at.

import { readFileSync } from "node:fs";

import { trainFromConfig } from "../../src/index.js";

/** proc(5): VmHWM is the peak of the resident set, in KiB. */
function peakBytes(): number {
  return Number(/VmHWM:\s+(\d+) kB/.exec(readFileSync("/proc/self/status", "utf8"))![1]) * 1024;
}

const [outputDir = "", end = "1"] = process.argv.slice(2);
const maxSteps = Number(end);
await trainFromConfig(
  {
    run: { max_steps: maxSteps, output_dir: outputDir, threads: 1 },
    // 50 million parameters: 200 MB, and as much for gradients and for each of two moments.
    model: { vocab_size: 256, max_seq_len: 16, n_layer: 16, n_head: 8, d_model: 512 },
    data: { num_tokens: 4096, micro_batch_size: 1, target_batch_size: 1 },
    checkpoint: { every_steps: 1000 },
  },
  {
    resume: maxSteps > 1,
    hooks: [
      (event, _payload) => {
        if (event === "train_step") process.stdout.write(`${peakBytes()}\n`);
      },
    ],
  },
);
