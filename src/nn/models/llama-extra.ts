// What a Llama-style model has beyond the options of all models: the keys of `model.extra`, their defaults and
// their rules.

import type { RotaryScaling } from "../layers/rotary-scaling.js";
import { type ExtraRule, flagRule, isPositive, positiveRule, readExtra, sizeOrNullRule } from "./extra.js";

/** As written in a config: `{ type: "linear", factor: 2 }` or the five keys of Llama 3.1. */
export type RopeScalingSection =
  | { readonly type: "linear"; readonly factor: number }
  | {
      readonly type: "llama3";
      readonly factor: number;
      readonly low_freq_factor: number;
      readonly high_freq_factor: number;
      readonly original_max_position_embeddings: number;
    };

export interface LlamaExtra {
  /** Width of one head; null means d_model / n_head. */
  readonly head_dim: number | null;
  /** Added inside the root of every RMSNorm. */
  readonly norm_eps: number;
  /** Biases of the projections to queries, keys and values. */
  readonly qkv_bias: boolean;
  readonly attention_output_bias: boolean;
  readonly mlp_bias: boolean;
  readonly rope_scaling: RopeScalingSection | null;
}

const ropeScalingRule: ExtraRule<RopeScalingSection | null> = {
  fallback: null,
  expected:
    'null, {type: "linear", factor}, or {type: "llama3", factor, low_freq_factor, high_freq_factor, ' +
    "original_max_position_embeddings} with numbers greater than 0 and low_freq_factor below high_freq_factor",
  accepts: (value) => value === null || isRopeScaling(value),
};

const keysOfScaling: Readonly<Record<RopeScalingSection["type"], readonly string[]>> = {
  linear: ["factor"],
  llama3: ["factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"],
};

function isRopeScaling(value: unknown): boolean {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const { type, ...numbers } = value as Record<string, unknown>;
  const keys = Object.hasOwn(keysOfScaling, String(type)) ? keysOfScaling[type as "linear"] : undefined;
  return (
    keys !== undefined &&
    Object.keys(numbers).sort().join() === [...keys].sort().join() &&
    Object.values(numbers).every(isPositive) &&
    (type !== "llama3" || (numbers.low_freq_factor as number) < (numbers.high_freq_factor as number))
  );
}

/** @throws ModelError for unknown keys and values that do not fit */
export function readLlamaExtra(extra: Readonly<Record<string, unknown>>): LlamaExtra {
  return readExtra<LlamaExtra>("llama", extra, {
    head_dim: sizeOrNullRule(),
    norm_eps: positiveRule(1e-5),
    qkv_bias: flagRule(false),
    attention_output_bias: flagRule(false),
    mlp_bias: flagRule(false),
    rope_scaling: ropeScalingRule,
  });
}

export function rotaryScalingOf({ rope_scaling }: LlamaExtra): RotaryScaling | null {
  if (rope_scaling === null) return null;
  if (rope_scaling.type === "linear") return { kind: "linear", factor: rope_scaling.factor };
  const { factor, low_freq_factor, high_freq_factor, original_max_position_embeddings } = rope_scaling;
  return {
    kind: "llama3",
    factor,
    lowFreqFactor: low_freq_factor,
    highFreqFactor: high_freq_factor,
    originalContext: original_max_position_embeddings,
  };
}
