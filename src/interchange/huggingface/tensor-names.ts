// Names of tensors on both sides. The models `llama` and `gpt2` carry the names of their files, so only old and
// bare spellings need work; the reference model has names of its own.

import type { ImportedModelSection } from "./model-config.js";

/** Buffers that old files hold though they can be computed: they are skipped. */
const computedBuffers: Readonly<Record<ImportedModelSection["name"], RegExp>> = {
  llama: /\.rotary_emb\.inv_freq$/,
  gpt2: /(?:^|\.)attn\.(?:bias|masked_bias)$/,
};

/** A trunk that was saved without its head lacks the prefix; this tensor tells. */
const trunks: Readonly<Record<ImportedModelSection["name"], { prefix: string; bareName: string }>> = {
  llama: { prefix: "model.", bareName: "embed_tokens.weight" },
  gpt2: { prefix: "transformer.", bareName: "wte.weight" },
};

/** File name → name in the model, for the tensors that the model can want. */
export function namesForImport(
  model: ImportedModelSection["name"],
  fileNames: Iterable<string>,
): Map<string, string> {
  const wanted = [...fileNames].filter((name) => !computedBuffers[model].test(name));
  const { prefix, bareName } = trunks[model];
  const isBare = wanted.includes(bareName);
  return new Map(wanted.map((name) => [name, isBare && name !== "lm_head.weight" ? prefix + name : name]));
}

const referenceNames: readonly (readonly [RegExp, string])[] = [
  [/^transformer\.wte\./, "model.embed_tokens."],
  [/^transformer\.ln_f\./, "model.norm."],
  [/^transformer\.h\.(\d+)\.ln1\./, "model.layers.$1.input_layernorm."],
  [/^transformer\.h\.(\d+)\.attn\.out_proj\./, "model.layers.$1.self_attn.o_proj."],
  [/^transformer\.h\.(\d+)\.attn\./, "model.layers.$1.self_attn."],
  [/^transformer\.h\.(\d+)\.ln2\./, "model.layers.$1.post_attention_layernorm."],
  [/^transformer\.h\.(\d+)\.mlp\./, "model.layers.$1.mlp."],
];

/** The name that a tensor of the reference model has in a Llama file. */
export function llamaNameOf(name: string): string {
  const rule = referenceNames.find(([pattern]) => pattern.test(name));
  return rule === undefined ? name : name.replace(rule[0], rule[1]);
}
