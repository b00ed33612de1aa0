// A Hugging Face folder as a model of this library: what `config.json` says is built, the weights are read into it.

import { readdir } from "node:fs/promises";
import { join } from "node:path";

import type { Gpt2 } from "../../nn/models/gpt2.js";
import type { Llama } from "../../nn/models/llama.js";
import { buildImportedModel, type ImportedModelSection, type ReadOptions } from "./model-config.js";
import { openWeights } from "./open-weights.js";
import { type HuggingFaceConfig, readHuggingFaceConfig } from "./read-config.js";
import { namesForImport } from "./tensor-names.js";
import { TOKENIZER_FILES } from "./tokenizer-files.js";
import { readWeights } from "./weights.js";

export interface ImportedModel {
  /** With the folder's weights, as float32. */
  readonly model: Llama | Gpt2;
  /** The part of a configuration that builds this model. */
  readonly config: { readonly model: ImportedModelSection };
  /** What `config.json` said, and what was left behind. */
  readonly source: HuggingFaceConfig;
  /** Paths of the tokenizer's files. Nothing here reads them: text for this model has to be encoded elsewhere. */
  readonly tokenizerFiles: readonly string[];
}

/**
 * Reads a folder in the layout of `save_pretrained`: Llama, Mistral, Qwen2 and what calls itself one of these
 * (such as SmolLM), or GPT-2; weights in one safetensors or PyTorch file or in shards, in float32, float16, bfloat16
 * or float64. Runs nothing that the folder brings. Peak memory is the float32 model and one tensor.
 * @throws UnsupportedModelError naming every feature that is not supported; HuggingFaceError where files are
 * missing or contradict each other; SafetensorsError or TorchFileError for damaged ones
 */
export async function importHuggingFace(folder: string, options: ReadOptions = {}): Promise<ImportedModel> {
  const source = await readHuggingFaceConfig(folder, options);
  const { path, reader } = await openWeights(folder);
  try {
    const model = buildImportedModel(source.model);
    const names = namesForImport(source.model.name, reader.entries.keys());
    await readWeights(model, reader, names, path);
    return { model, config: { model: source.model }, source, tokenizerFiles: await tokenizerFilesIn(folder) };
  } finally {
    await reader.close();
  }
}

async function tokenizerFilesIn(folder: string): Promise<string[]> {
  const present = new Set(await readdir(folder));
  return TOKENIZER_FILES.filter((name) => present.has(name)).map((name) => join(folder, name));
}
