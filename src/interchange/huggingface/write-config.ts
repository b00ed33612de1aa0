// From a model to the `config.json` under which `transformers` computes the same. Refuses what no model type there
// can express; the opposite direction is read-config.ts.

import { Gpt2, gpt2MlpWidth } from "../../nn/models/gpt2.js";
import { Llama } from "../../nn/models/llama.js";
import { type LlamaExtra, readLlamaExtra } from "../../nn/models/llama-extra.js";
import { type ModelOptions, mlpWidthOf } from "../../nn/models/options.js";
import { ReferenceTransformer } from "../../nn/models/reference-transformer.js";
import { ModelError } from "../../util/errors.js";

/** A model that can be written for `transformers`. */
export type ExportableModel = ReferenceTransformer | Llama | Gpt2;

export function isExportable(model: object): model is ExportableModel {
  return model instanceof ReferenceTransformer || model instanceof Llama || model instanceof Gpt2;
}

/** What every such file says of itself: float32 weights, and no token that begins, ends or pads a text. */
const common = {
  // Both spellings, for releases of transformers before and after 5.
  dtype: "float32",
  torch_dtype: "float32",
  bos_token_id: null,
  eos_token_id: null,
  pad_token_id: null,
  initializer_range: 0.02,
  use_cache: true,
};

/** @throws ModelError `huggingface.cannot_express` for biases that no model type has in this combination */
export function writeConfig(model: ExportableModel): Record<string, unknown> {
  if (model instanceof Gpt2) return gpt2Config(model);
  // The reference model is the family's plainest member.
  const extra = model instanceof Llama ? model.extra : readLlamaExtra({});
  return llamaConfig(model.options, extra);
}

function llamaConfig(options: ModelOptions, extra: LlamaExtra): Record<string, unknown> {
  const { nHead, dModel, ropeBase } = options;
  const { type: rope_type, ...factors } = extra.rope_scaling ?? { type: "default" };
  return {
    ...modelTypeOf(extra),
    ...common,
    vocab_size: options.vocabSize,
    max_position_embeddings: options.blockSize,
    hidden_size: dModel,
    intermediate_size: mlpWidthOf(options),
    num_hidden_layers: options.nLayer,
    num_attention_heads: nHead,
    num_key_value_heads: options.nKvHead ?? nHead,
    head_dim: extra.head_dim ?? dModel / nHead,
    hidden_act: "silu",
    rms_norm_eps: extra.norm_eps,
    attention_dropout: 0,
    tie_word_embeddings: options.tieWeights,
    // The older spelling of rope_parameters.
    rope_theta: ropeBase,
    rope_scaling: extra.rope_scaling === null ? null : { rope_type, ...factors },
    rope_parameters: { rope_type, rope_theta: ropeBase, ...factors },
  };
}

function modelTypeOf(extra: LlamaExtra): Record<string, unknown> {
  const { qkv_bias, attention_output_bias, mlp_bias } = extra;
  if (qkv_bias === attention_output_bias)
    return {
      architectures: ["LlamaForCausalLM"],
      model_type: "llama",
      attention_bias: qkv_bias,
      mlp_bias,
    };
  if (qkv_bias && !mlp_bias)
    return { architectures: ["Qwen2ForCausalLM"], model_type: "qwen2", use_sliding_window: false };
  throw new ModelError(
    `no model type of transformers has these biases together: qkv_bias ${qkv_bias}, attention_output_bias ` +
      `${attention_output_bias}, mlp_bias ${mlp_bias}; this model cannot be exported`,
    { code: "huggingface.cannot_express", details: { qkv_bias, attention_output_bias, mlp_bias } },
  );
}

function gpt2Config({ options, extra }: Gpt2): Record<string, unknown> {
  const { dropout } = options;
  return {
    architectures: ["GPT2LMHeadModel"],
    model_type: "gpt2",
    ...common,
    vocab_size: options.vocabSize,
    n_positions: options.blockSize,
    n_embd: options.dModel,
    n_layer: options.nLayer,
    n_head: options.nHead,
    n_inner: gpt2MlpWidth(options),
    activation_function: extra.activation,
    resid_pdrop: dropout,
    embd_pdrop: dropout,
    attn_pdrop: dropout,
    layer_norm_epsilon: extra.norm_eps,
    tie_word_embeddings: options.tieWeights,
  };
}
