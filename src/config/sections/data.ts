// Section `data`: where tokens come from and how they are grouped. Paths are not opened here.

import { defineSection, field, flag, orNull, real, text, whole } from "../field.js";

export const data = defineSection({
  name: "data",
  summary: "Source of the tokens, and batches.",
  shape: {
    text_path: field(orNull(text()), null, "A text file to train on, relative to the working directory."),
    dataset: field(orNull(text()), null, "A dataset by path or name."),
    synthetic: field(flag(), true, "Train on random tokens when no other source is named."),
    num_tokens: field(
      whole({ min: 1 }),
      100000,
      "Number of synthetic samples (not tokens, despite the name).",
    ),
    vocab_size: field(
      orNull(whole({ min: 1 })),
      null,
      "Vocabulary of the data; null means model.vocab_size, and nothing else is accepted.",
    ),
    block_size: field(
      orNull(whole({ min: 1 })),
      null,
      "Tokens per sample, at most model.max_seq_len, which null stands for.",
    ),
    micro_batch_size: field(whole({ min: 1 }), 1, "Samples per forward and backward pass."),
    target_batch_size: field(
      whole({ min: 1 }),
      1,
      "Samples per optimizer step, a multiple of micro_batch_size; when left out, micro_batch_size.",
    ),
    num_workers: field(
      whole({ min: 0 }),
      0,
      "Scales how far data is read ahead; the order never depends on it.",
    ),
    prefetch_factor: field(
      orNull(whole({ min: 1 })),
      null,
      "Micro-batches read ahead per worker; null means 2.",
    ),
    pin_memory: field(orNull(flag()), null, "Page-locked batches for a GPU; null means where it helps."),
    shuffle: field(flag(), false, "Visit samples in an order drawn anew each epoch from data.seed."),
    drop_last: field(flag(), true, "Leave out an incomplete last micro-batch of an epoch."),
    seed: field(orNull(whole()), null, "Seed of synthetic tokens and of shuffling; null means run.seed."),
    max_steps: field(orNull(whole({ min: 1 })), null, "If set, replaces run.max_steps."),
    validation_fraction: field(
      real({ min: 0, below: 1 }),
      0,
      "Share of the text, taken from its end, that is held out of training for the validation loss.",
    ),
    virtual_shards: field(
      orNull(whole({ min: 1, max: 65536 })),
      1024,
      "Shards that nodes which train together share their samples by, if their data is the same; null means that each node keeps the order of a run alone.",
    ),
  },
  checks: [
    {
      at: "target_batch_size",
      needs: ["micro_batch_size", "target_batch_size"],
      test: ({ micro_batch_size, target_batch_size }) => {
        if (target_batch_size % micro_batch_size === 0) return undefined;
        const below = Math.floor(target_batch_size / micro_batch_size) * micro_batch_size;
        const near = below > 0 ? `${below} or ${below + micro_batch_size}` : `${micro_batch_size}`;
        return `${target_batch_size} is not a multiple of micro_batch_size ${micro_batch_size}; use ${near}`;
      },
    },
    {
      at: "synthetic",
      needs: ["synthetic", "text_path", "dataset"],
      test: ({ synthetic, text_path, dataset }) =>
        synthetic || text_path !== null || dataset !== null
          ? undefined
          : "false, but no other source is named; set data.text_path, or leave synthetic at true",
    },
    {
      at: "text_path",
      needs: ["text_path"],
      test: ({ text_path }) => (text_path === "" ? "is empty; name a file or use null" : undefined),
    },
  ],
});
