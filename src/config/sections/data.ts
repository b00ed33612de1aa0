// Section `data`: where tokens come from and how they are grouped. Paths are not opened here.

import * as z from "zod";
import { choice, custom, defineSection, field, flag, orNull, real, text, whole } from "../field.js";

const sourceFormats = ["auto", "text", "jsonl", "parquet", "prepared"] as const;
const path = z.string().min(1);
/** Keys that are left out are those of the section. */
const sourceEntry = z.strictObject({
  path: z.union([path, z.array(path).min(1)]),
  format: z.enum(sourceFormats).optional(),
  text_field: z.string().min(1).optional(),
  template: z.nullable(z.string()).optional(),
  document_separator: z.nullable(z.string().min(1)).optional(),
  weight: z.number().gt(0).optional(),
});

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
    sources: field(
      custom(
        z.nullable(z.union([path, z.array(z.union([path, sourceEntry])).min(1)])),
        "a path, a pattern, hf://datasets/org/name, a prepared folder, or a list of these and of mappings with path, format, text_field, template, document_separator and weight; or null",
      ),
      null,
      "What to train on: files (also .gz and .zst), Parquet, datasets of a hub, or folders made by speedtronic data prepare, relative to the working directory; with weights they are mixed.",
    ),
    format: field(
      choice(sourceFormats),
      "auto",
      "Format of the sources; auto goes by the ends of their names, and takes what it does not know for text.",
    ),
    text_field: field(
      text(),
      "text",
      "Field of JSON Lines, or column of Parquet, that holds the text; a dot leads into an object.",
    ),
    template: field(
      orNull(text()),
      null,
      "Makes the text of several fields, as in {question}\\n{answer}; takes the place of text_field.",
    ),
    document_separator: field(
      orNull(text()),
      null,
      "What lies between two documents of a text file; null means that a file is one document.",
    ),
    max_tokens: field(
      orNull(whole({ min: 1 })),
      null,
      "Only so many tokens of each source, from its beginning, so that no more of a large dataset is fetched; null means all.",
    ),
    bad_record_limit: field(
      whole({ min: 0 }),
      100,
      "Records of the sources that may be left out because they cannot be used; one more stops the run.",
    ),
    cache_dir: field(
      orNull(text()),
      null,
      "Folder for downloads and tokenised sources; null means SPEEDTRONIC_CACHE, or the user's cache folder.",
    ),
    tokenizer: field(
      orNull(text()),
      null,
      "A tokenizer.json, or a folder that holds one, relative to the working directory; or a tokenizer that a plugin registers; null means bytes.",
    ),
    end_of_text: field(
      orNull(text()),
      null,
      "Token of the tokenizer that is put after each document of the sources; null means none.",
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
      needs: ["synthetic", "text_path", "dataset", "sources"],
      test: ({ synthetic, text_path, dataset, sources }) =>
        synthetic || text_path !== null || dataset !== null || sources !== null
          ? undefined
          : "false, but no other source is named; set data.text_path, or leave synthetic at true",
    },
    {
      at: "text_path",
      needs: ["text_path"],
      test: ({ text_path }) => (text_path === "" ? "is empty; name a file or use null" : undefined),
    },
    {
      at: "sources",
      needs: ["sources", "text_path"],
      test: ({ sources, text_path }) => {
        if (sources === null) return undefined;
        if (text_path !== null) return "is set beside text_path; make the file an entry of sources";
        const entries = typeof sources === "string" ? [sources] : sources;
        const weighed = entries.filter((entry) => typeof entry === "object" && entry.weight !== undefined);
        return weighed.length === 0 || weighed.length === entries.length
          ? undefined
          : `${weighed.length} of ${entries.length} entries have a weight; give each one, or none`;
      },
    },
    {
      at: "tokenizer",
      needs: ["tokenizer"],
      test: ({ tokenizer }) => (tokenizer === "" ? "is empty; name a file or use null" : undefined),
    },
    {
      at: "end_of_text",
      needs: ["end_of_text", "tokenizer", "sources"],
      test: ({ end_of_text, tokenizer, sources }) => {
        if (end_of_text === null) return undefined;
        if (tokenizer === null) return "is set, but bytes have no such token; name a tokenizer";
        return sources === null ? "is set, but only sources have documents; name sources" : undefined;
      },
    },
    {
      at: "document_separator",
      needs: ["document_separator"],
      test: ({ document_separator }) =>
        document_separator === "" ? "is empty; name what lies between documents or use null" : undefined,
    },
  ],
});
