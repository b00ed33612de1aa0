// A small training state that is a pure function of its step. Apart from the fixtures because child processes,
// which do not run inside the test runner, need it too.

import type { CheckpointContent } from "../../src/checkpoint/index.js";

export function stateAt(step: number, size = 24): CheckpointContent {
  // A plain loop, so that a large state costs little beside its saving.
  const values = (salt: number) => {
    const data = new Float32Array(size);
    for (let i = 0; i < size; i += 1) data[i] = ((7 * step + 13 * salt + i) % 1009) / 8 - 50;
    return data;
  };
  const embedding = { dtype: "float32" as const, shape: [size / 4, 4], data: values(1) };
  return {
    model: new Map([
      ["tok_emb.weight", embedding],
      ["norm.weight", { dtype: "float32" as const, shape: [size], data: values(2) }],
      ["lm_head.weight", embedding],
    ]),
    optimizer: new Map([
      ["tok_emb.weight.exp_avg", { dtype: "float32" as const, shape: [size / 4, 4], data: values(3) }],
      ["tok_emb.weight.exp_avg_sq", { dtype: "float32" as const, shape: [size / 4, 4], data: values(4) }],
    ]),
    trainer: {
      step,
      samples: 8 * step,
      tokens: 256 * step,
      data: { epoch: Math.floor(step / 10), position: step % 10 },
      rng: { seed: 1234 },
      schedule: { kind: "cosine", maxSteps: 1000 },
      bestValidation: step === 0 ? null : { step: step - 1, loss: 1.5 },
      counters: { skippedSteps: 0 },
      coordinator: null,
    },
    config: { run: { seed: 1234 }, checkpoint: { keep_last: 3 } },
    fingerprint: {
      model: { name: "reference_transformer", n_head: 4, rope: { base: 10000 } },
      data: { kind: "text", sizeBytes: 1000 },
      optimizer: { name: "adamw", lr: 0.002 },
    },
    environment: {
      threads: 2,
      cpu: "test cpu",
      node: "v20.0.0",
      library: "speedtronic 0.1.0",
      platform: "linux",
    },
  };
}

/** {@link stateAt} with everything that a checkpoint may hold besides. */
export function richStateAt(step: number, size = 24): CheckpointContent {
  const state = stateAt(step, size);
  return {
    ...state,
    modules: { "": { calls: 3 * step }, "layers.0": ["seen", step] },
    coordinator: new Map([["baseline.w", { dtype: "float32", shape: [2], data: Float32Array.of(step, -0) }]]),
    trainer: {
      ...state.trainer,
      coordinator: { round: step, pending: null },
      validation: { loss: 1.25, tokens: 64 },
    },
    fingerprint: { ...state.fingerprint, distributed: { enabled: false } },
  };
}
