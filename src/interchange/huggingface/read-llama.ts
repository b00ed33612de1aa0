// The Llama family of `config.json` files: which keys each member has, with the defaults of its own, and what it
// may not use. Rotary settings are taken in both spellings (`rope_theta` with `rope_scaling`, or `rope_parameters`).

import type { RopeScalingSection } from "../../nn/models/llama-extra.js";
import type { ConfigJson } from "./config-json.js";
import type { ReadModel } from "./model-config.js";
import { describeSetting } from "./refused-features.js";

/** A member's own defaults: what a key means that its `config.json` leaves out. */
interface FamilyMember {
  readonly vocabSize: number;
  readonly mlpWidth: number;
  /** Null: as many as heads. */
  readonly keyHeads: number | null;
  readonly context: number;
  /** The biases of queries, keys and values, whatever the file says; null asks `attention_bias`. */
  readonly qkvBias: boolean | null;
  readonly outputBias: boolean | null;
  readonly mlpBias: boolean | null;
  /** The window that attention is limited to, in tokens; null without one. */
  window(config: ConfigJson): number | null;
}

export const llamaFamily: Readonly<Record<string, FamilyMember>> = {
  llama: {
    vocabSize: 32000,
    mlpWidth: 11008,
    keyHeads: null,
    context: 2048,
    qkvBias: null,
    outputBias: null,
    mlpBias: null,
    window: () => null,
  },
  mistral: {
    vocabSize: 32000,
    mlpWidth: 14336,
    keyHeads: 8,
    context: 131072,
    qkvBias: false,
    outputBias: false,
    mlpBias: false,
    window: (config) =>
      config.get("sliding_window") === undefined ? 4096 : config.sizeOrNull("sliding_window"),
  },
  qwen2: {
    vocabSize: 151936,
    mlpWidth: 22016,
    keyHeads: 32,
    context: 32768,
    qkvBias: true,
    outputBias: false,
    mlpBias: false,
    window: qwen2Window,
  },
};

/** Only layers from `max_window_layers` on look through the window, and only where it is switched on. */
function qwen2Window(config: ConfigJson): number | null {
  if (!config.flag("use_sliding_window", false)) return null;
  const window = config.get("sliding_window") === undefined ? 4096 : config.sizeOrNull("sliding_window");
  const full =
    typeof config.get("max_window_layers") === "number" ? Number(config.get("max_window_layers")) : 28;
  const layerTypes = config.texts("layer_types");
  const isUsed =
    layerTypes.length > 0
      ? layerTypes.includes("sliding_attention")
      : full < config.size("num_hidden_layers", 32);
  return isUsed ? window : null;
}

export function readLlama(config: ConfigJson, modelType: string, maxSeqLen: number | undefined): ReadModel {
  const member = llamaFamily[modelType]!;
  const unsupported: string[] = [];
  const notes: string[] = [];

  const activation = config.text("hidden_act", "silu");
  if (activation !== "silu" && activation !== "swish")
    unsupported.push(`activation other than silu (${describeSetting("hidden_act", activation)})`);

  const heads = config.size("num_attention_heads", 32);
  const allowed = config.size("max_position_embeddings", member.context);
  const context = maxSeqLen ?? allowed;
  const window = member.window(config);
  if (window !== null && window < context)
    unsupported.push(
      `sliding window in use (sliding_window: ${window}, context: ${context}); import it for a context of at most ` +
        `${window} tokens, where the window changes nothing`,
    );

  const rope = readRope(config, unsupported);
  const attentionBias = config.flag("attention_bias", false);
  const dropout = config.rate("attention_dropout", 0);
  if (dropout > 0)
    notes.push(`attention_dropout ${dropout} is left out: model.dropout is 0, set it to train with dropout`);

  return {
    positions: { key: "max_position_embeddings", allowed },
    unsupported,
    notes,
    section: {
      name: "llama",
      vocab_size: config.size("vocab_size", member.vocabSize),
      max_seq_len: context,
      n_layer: config.size("num_hidden_layers", 32),
      n_head: heads,
      n_kv_head: config.size("num_key_value_heads", member.keyHeads ?? heads),
      d_model: config.size("hidden_size", 4096),
      dropout: 0,
      tie_weights: config.flag("tie_word_embeddings", false),
      rope_base: rope.base,
      mlp_width: config.size("intermediate_size", member.mlpWidth),
      extra: {
        head_dim: config.sizeOrNull("head_dim"),
        norm_eps: config.positive("rms_norm_eps", 1e-6),
        qkv_bias: member.qkvBias ?? attentionBias,
        attention_output_bias: member.outputBias ?? attentionBias,
        mlp_bias: member.mlpBias ?? config.flag("mlp_bias", false),
        rope_scaling: rope.scaling,
      },
    },
  };
}

function readRope(
  config: ConfigJson,
  unsupported: string[],
): { base: number; scaling: RopeScalingSection | null } {
  const parameters = config.mapping("rope_parameters");
  const scaling = parameters ?? config.mapping("rope_scaling");
  const base = (parameters?.has("rope_theta") ? parameters : config).positive("rope_theta", 10000);
  if (scaling === null) return { base, scaling: null };

  if (
    Object.values(scaling.values).some(
      (value) => typeof value === "object" && value !== null && !Array.isArray(value),
    )
  ) {
    unsupported.push("rotary settings that differ between layers (rope_parameters)");
    return { base, scaling: null };
  }
  if (scaling.has("partial_rotary_factor") && scaling.get("partial_rotary_factor") !== 1)
    unsupported.push(
      `rotation of a part of each head (${describeSetting("partial_rotary_factor", scaling.get("partial_rotary_factor"))})`,
    );
  const type = scaling.text("rope_type", scaling.text("type", "default"));
  switch (type) {
    case "default":
      return { base, scaling: null };
    case "linear":
      return { base, scaling: { type, factor: requiredNumber(scaling, "factor", unsupported) } };
    case "llama3":
      return {
        base,
        scaling: {
          type,
          factor: requiredNumber(scaling, "factor", unsupported),
          low_freq_factor: requiredNumber(scaling, "low_freq_factor", unsupported),
          high_freq_factor: requiredNumber(scaling, "high_freq_factor", unsupported),
          original_max_position_embeddings: scaling.size(
            "original_max_position_embeddings",
            config.size("max_position_embeddings", 2048),
          ),
        },
      };
    default:
      unsupported.push(
        `scaling of rotary positions other than linear or llama3 (rope_type: ${JSON.stringify(type)})`,
      );
      return { base, scaling: null };
  }
}

/** Without it the scaling means nothing, so it counts as something that cannot be done. */
function requiredNumber(scaling: ConfigJson, key: string, unsupported: string[]): number {
  if (!scaling.has(key)) unsupported.push(`scaling of rotary positions without "${key}"`);
  return scaling.positive(key, 1);
}
