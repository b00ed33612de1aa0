// One process of the step benchmark: trains a size for some steps through the built package's public API and
// prints one JSON line. Plain JavaScript, so that the process holds nothing but the package.
// Arguments: the size as JSON (see sizes.ts), threads, steps.

import { buildRuntime } from "../dist/index.js";

const [sizeText, threads, steps] = process.argv.slice(2);
const size = JSON.parse(sizeText);
const warmup = 8;

const times = [];
const losses = [];
const runtime = await buildRuntime(
  {
    run: { max_steps: Number(steps) + warmup, threads: Number(threads) },
    model: {
      vocab_size: size.vocab,
      max_seq_len: size.context,
      n_layer: size.layers,
      n_head: size.heads,
      d_model: size.width,
      d_ff: size.dFf,
    },
    data: { micro_batch_size: size.batch, num_tokens: 1000 },
    optimizer: { lr: 1e-3, betas: [0.9, 0.95], weight_decay: 0.1 },
    scheduler: { name: "constant", warmup_steps: 0 },
    checkpoint: { enabled: false },
  },
  {
    hooks: [
      (event, payload) => {
        if (event !== "train_step") return;
        times.push(1000 * payload.step_s);
        losses.push(payload.loss);
      },
    ],
  },
);
await runtime.trainer.fit();
await runtime.close();
const sorted = times.slice(warmup).sort((a, b) => a - b);
const median = sorted[sorted.length >> 1];
console.log(
  JSON.stringify({
    engine: "speedtronic",
    med_ms: median,
    min_ms: sorted[0],
    tok_s: (size.batch * size.context * 1000) / median,
    rss_mb: process.resourceUsage().maxRSS / 1024,
    loss: [losses[0], losses.at(-1)],
  }),
);
