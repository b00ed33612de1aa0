// One process of the data benchmark, through the built package. Prints one JSON line. Plain JavaScript, so that the process
// holds nothing but the package. Arguments: what to do, and its options as JSON.

import { rmSync } from "node:fs";
import { resolveConfig } from "../dist/config/resolve.js";
import { buildDataloader } from "../dist/data/index.js";
import { buildRuntime } from "../dist/index.js";
import { dataloaderOptions } from "../dist/train/from-config.js";
import { prepareData } from "../dist/train/prepare-data.node.js";
import { peakMemoryMb } from "./peak-memory.mjs";

const [task, text] = process.argv.slice(2);
const { size, threads, steps, data, out, workers, batches } = JSON.parse(text);
const warmup = 4;

const config = {
  run: { max_steps: (steps ?? 1) + warmup, ...(threads ? { threads } : {}) },
  model: {
    vocab_size: size.vocab,
    max_seq_len: size.context,
    n_layer: size.layers,
    n_head: size.heads,
    d_model: size.width,
    d_ff: size.dFf,
  },
  data: { micro_batch_size: size.batch, shuffle: true, ...data },
  scheduler: { name: "constant", warmup_steps: 0 },
  checkpoint: { enabled: false },
};

const tasks = {
  /** Steps of real training, and what of them was waiting for data. */
  async train() {
    const taken = [];
    const started = performance.now();
    let firstStepS;
    const runtime = await buildRuntime(config, {
      hooks: [
        (event, payload) => {
          if (event !== "train_step") return;
          firstStepS ??= (performance.now() - started) / 1000;
          taken.push({ step: payload.step_s, data: payload.data_s ?? 0 });
        },
      ],
    });
    await runtime.trainer.fit();
    await runtime.close();
    const timed = taken.slice(warmup);
    const sum = (key) => timed.reduce((total, one) => total + one[key], 0);
    const tokensPerSec = (timed.length * size.batch * size.context) / sum("step");
    return { firstStepS, tokensPerSec, waitingShare: sum("data") / sum("step") };
  },

  /** Batches of the loader alone. */
  async load() {
    const { train } = await buildDataloader(dataloaderOptions(resolveConfig(config)));
    for (let i = 0; i < 20; i++) await train.next();
    const started = performance.now();
    let tokens = 0;
    for (let i = 0; i < batches; i++) tokens += (await train.next()).tokens;
    const seconds = (performance.now() - started) / 1000;
    await train.close();
    return { tokensPerSec: tokens / seconds };
  },

  /** Text to ids on the disk. */
  async prepare() {
    rmSync(out, { recursive: true, force: true });
    const started = performance.now();
    const { manifest } = await prepareData(resolveConfig(config), { directory: out, workers });
    const seconds = (performance.now() - started) / 1000;
    return { seconds, tokens: manifest.tokens, tokensPerSec: manifest.tokens / seconds };
  },
};

const result = await tasks[task]();
console.log(JSON.stringify({ ...result, peakMb: peakMemoryMb() }));
