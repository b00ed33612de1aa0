// `config.json` of GPT-2, with its older spelling of the sizes.

import { type Gpt2Activation, gpt2Activations } from "../../nn/models/gpt2.js";
import type { ConfigJson } from "./config-json.js";
import type { ReadModel } from "./model-config.js";
import { describeSetting } from "./refused-features.js";

/** Names of one function: GELU by its tanh approximation. */
const tanhGelu: readonly string[] = ["gelu_new", "gelu_pytorch_tanh", "gelu_fast"];

export function readGpt2(config: ConfigJson, maxSeqLen: number | undefined): ReadModel {
  const unsupported: string[] = [];
  const notes: string[] = [];

  const written = config.text("activation_function", "gelu_new");
  const activation = tanhGelu.includes(written) ? "gelu_new" : written;
  if (!(gpt2Activations as string[]).includes(activation))
    unsupported.push(
      `activation other than ${gpt2Activations.join(", ")} (${describeSetting("activation_function", written)})`,
    );
  if (!config.flag("scale_attn_weights", true))
    unsupported.push("attention without its scale (scale_attn_weights: false)");
  if (config.flag("scale_attn_by_inverse_layer_idx", false))
    unsupported.push("attention scaled by layer (scale_attn_by_inverse_layer_idx: true)");

  const rates = ["resid_pdrop", "embd_pdrop", "attn_pdrop"].map((key) => config.rate(key, 0.1));
  const isOneRate = rates.every((rate) => rate === rates[0]);
  if (!isOneRate)
    notes.push(`dropout rates that differ (${rates.join(", ")}) are left out: model.dropout is 0`);

  const heads = config.size("n_head", 12);
  const width = config.size("n_embd", 768);
  const positions = config.size("n_positions", 1024);
  if (maxSeqLen !== undefined && maxSeqLen < positions)
    unsupported.push(`fewer positions than the ${positions} that it learned (context: ${maxSeqLen})`);
  return {
    positions: { key: "n_positions", allowed: positions },
    unsupported,
    notes,
    section: {
      name: "gpt2",
      vocab_size: config.size("vocab_size", 50257),
      max_seq_len: positions,
      n_layer: config.size("n_layer", 12),
      n_head: heads,
      n_kv_head: heads,
      d_model: width,
      dropout: isOneRate ? rates[0]! : 0,
      tie_weights: config.flag("tie_word_embeddings", true),
      rope_base: 10000,
      mlp_width: config.sizeOrNull("n_inner") ?? 4 * width,
      extra: {
        norm_eps: config.positive("layer_norm_epsilon", 1e-5),
        activation: activation as Gpt2Activation,
      },
    },
  };
}
