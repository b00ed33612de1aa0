// What a `config.json` says, in the terms of this library's `model` section: the contract between the readers of
// single model types and whoever builds the model.

import type { Gpt2 } from "../../nn/models/gpt2.js";
import type { Llama } from "../../nn/models/llama.js";
import { modelOptionsFromConfig } from "../../nn/models/options.js";
import { buildModel } from "../../nn/models/registry.js";

/** A `model` section that is written out in full, ready for a configuration file. */
export interface ImportedModelSection {
  readonly name: "llama" | "gpt2";
  readonly vocab_size: number;
  readonly max_seq_len: number;
  readonly n_layer: number;
  readonly n_head: number;
  readonly n_kv_head: number;
  readonly d_model: number;
  readonly dropout: number;
  readonly tie_weights: boolean;
  readonly rope_base: number;
  readonly mlp_width: number;
  readonly extra: Readonly<Record<string, unknown>>;
}

/** What a reader of one model type finds. */
export interface ReadModel {
  readonly section: ImportedModelSection;
  /** How many positions the model was made for, and the key that says so. */
  readonly positions: { readonly key: string; readonly allowed: number };
  /** Features that no model here has; with any, the model is refused. */
  readonly unsupported: readonly string[];
  /** What was left behind without changing what the model computes. */
  readonly notes: readonly string[];
}

export interface ReadOptions {
  /** Longest context to build for, in tokens. Default: what the model allows; more than that is refused. */
  readonly maxSeqLen?: number;
}

/** All weights are zeros still. */
export function buildImportedModel(section: ImportedModelSection): Llama | Gpt2 {
  const { name } = section;
  return buildModel({ name, ...modelOptionsFromConfig({ ...section, d_ff: null }) }) as Llama | Gpt2;
}
