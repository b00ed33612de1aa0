// Keys of `config.json` that change what a model computes and that no model here honours, each with the values
// that switch the feature on. A key that is absent, null or at its neutral value is no obstacle.

import type { ConfigJson } from "./config-json.js";

interface RefusedFeature {
  /** As people call it. */
  readonly name: string;
  readonly keys: readonly string[];
  isActive(value: unknown): boolean;
}

const isSet = () => true;
const isTrue = (value: unknown) => value === true;
const isSeveral = (value: unknown) => typeof value === "number" && value > 1;
const isNotOne = (value: unknown) => value !== 1;
const isNotZero = (value: unknown) => value !== 0;

const refusedFeatures: readonly RefusedFeature[] = [
  {
    name: "mixture of experts",
    keys: ["num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"],
    isActive: isSeveral,
  },
  { name: "quantised weights", keys: ["quantization_config"], isActive: isSet },
  { name: "soft cap on attention scores", keys: ["attn_logit_softcapping"], isActive: isSet },
  { name: "soft cap on logits", keys: ["final_logit_softcapping"], isActive: isSet },
  {
    name: "attention and MLP in parallel",
    keys: ["use_parallel_residual", "parallel_attn", "parallel_attention"],
    isActive: isTrue,
  },
  {
    name: "rotation of a part of each head",
    keys: ["partial_rotary_factor", "rotary_pct"],
    isActive: isNotOne,
  },
  {
    name: "layers without positions",
    keys: ["no_rope_layers"],
    isActive: (value) => !Array.isArray(value) || value.some((used) => used !== 1),
  },
  { name: "ALiBi positions", keys: ["alibi"], isActive: isTrue },
  {
    name: "other kind of positions",
    keys: ["position_embedding_type"],
    isActive: (value) => value !== "absolute" && value !== "rope",
  },
  {
    name: "norms of queries and keys",
    keys: ["use_qk_norm", "qk_norm", "qk_layernorm", "query_key_norm"],
    isActive: isTrue,
  },
  { name: "clipping of queries, keys and values", keys: ["clip_qkv"], isActive: isSet },
  { name: "attention scale of its own", keys: ["query_pre_attn_scalar"], isActive: isSet },
  {
    name: "scaling factors between layers",
    keys: [
      "embedding_multiplier",
      "residual_multiplier",
      "attention_multiplier",
      "logits_scaling",
      "logit_scale",
      "scale_emb",
      "scale_depth",
    ],
    isActive: isNotOne,
  },
  { name: "latent attention", keys: ["kv_lora_rank", "q_lora_rank"], isActive: isSet },
  { name: "prediction of several tokens", keys: ["num_nextn_predict_layers"], isActive: isNotZero },
  { name: "encoder and decoder", keys: ["is_encoder_decoder"], isActive: isTrue },
  { name: "attention to another sequence", keys: ["add_cross_attention"], isActive: isTrue },
  {
    name: "several kinds of input",
    keys: ["text_config", "vision_config", "audio_config"],
    isActive: isSet,
  },
];

/** One line per feature in use, with the key and its value. */
export function listRefusedFeatures(config: ConfigJson): string[] {
  return refusedFeatures.flatMap(({ name, keys, isActive }) =>
    keys
      .filter((key) => config.has(key) && isActive(config.get(key)))
      .map((key) => `${name} (${describeSetting(key, config.get(key))})`),
  );
}

/** `key: value`; of a mapping only its own name for what it is. */
export function describeSetting(key: string, value: unknown): string {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    return `${key}: ${shorten(JSON.stringify(value))}`;
  const { quant_method, model_type } = value as Record<string, unknown>;
  const kind = quant_method ?? model_type;
  return typeof kind === "string" ? `${key}: ${kind}` : key;
}

function shorten(text: string): string {
  return text.length <= 60 ? text : `${text.slice(0, 59)}…`;
}
