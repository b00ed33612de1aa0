// From a folder's `config.json` to a `model` section, or to a refusal that names everything which stands in the way.

import { ConfigError } from "../../util/errors.js";
import { type ConfigJson, readConfigJson } from "./config-json.js";
import { UnsupportedModelError } from "./errors.js";
import type { ImportedModelSection, ReadModel, ReadOptions } from "./model-config.js";
import { readGpt2 } from "./read-gpt2.js";
import { llamaFamily, readLlama } from "./read-llama.js";
import { describeSetting, listRefusedFeatures } from "./refused-features.js";

export interface HuggingFaceConfig {
  /** Such as `llama`. */
  readonly modelType: string;
  /** Such as `LlamaForCausalLM`; null where the file names none. */
  readonly architecture: string | null;
  readonly model: ImportedModelSection;
  /** What was left behind without changing what the model computes. */
  readonly notes: readonly string[];
}

/** Model types that can be imported. */
export const supportedModelTypes: readonly string[] = [...Object.keys(llamaFamily), "gpt2"];

/**
 * Reads and checks `config.json` of a folder; looks at no weights.
 * @throws HuggingFaceError where there is none, or one of its values has a wrong type; UnsupportedModelError for
 * whatever the models here cannot compute; ConfigError for a `maxSeqLen` that is no positive integer or beyond what
 * the model was made for
 */
export async function readHuggingFaceConfig(
  folder: string,
  options: ReadOptions = {},
): Promise<HuggingFaceConfig> {
  const { maxSeqLen } = options;
  if (maxSeqLen !== undefined && !(Number.isSafeInteger(maxSeqLen) && maxSeqLen >= 1))
    throw wrongContext(`maxSeqLen must be a positive integer, got ${maxSeqLen}`, { maxSeqLen });
  const config = await readConfigJson(folder);
  const modelType = config.text("model_type", "");
  const architecture = config.texts("architectures")[0] ?? null;
  const refused = [...refusedArchitecture(modelType, architecture), ...listRefusedFeatures(config)];
  const read = supportedModelTypes.includes(modelType) ? readModel(config, modelType, maxSeqLen) : undefined;
  const unsupported = [...refused, ...(read?.unsupported ?? [])];
  if (read === undefined || unsupported.length > 0) throw new UnsupportedModelError(config.path, unsupported);

  const { key, allowed } = read.positions;
  if (maxSeqLen !== undefined && maxSeqLen > allowed)
    throw wrongContext(
      `${config.path}: a context of ${maxSeqLen} positions is longer than the model was made for (${key}: ${allowed}); ` +
        `choose at most ${allowed}, or leave it out for all of them`,
      { path: config.path, maxSeqLen, [key]: allowed },
    );

  const custom = config.has("auto_map")
    ? ["its own Python code (auto_map) is not run; the model is taken for a plain one of its type"]
    : [];
  return { modelType, architecture, model: read.section, notes: [...read.notes, ...custom] };
}

function wrongContext(message: string, details: Record<string, unknown>): ConfigError {
  return new ConfigError(message, { code: "huggingface.max_seq_len", details });
}

function readModel(config: ConfigJson, modelType: string, maxSeqLen: number | undefined): ReadModel {
  return modelType === "gpt2" ? readGpt2(config, maxSeqLen) : readLlama(config, modelType, maxSeqLen);
}

function refusedArchitecture(modelType: string, architecture: string | null): string[] {
  const refused: string[] = [];
  if (!supportedModelTypes.includes(modelType))
    refused.push(
      `model type (${describeSetting("model_type", modelType)}); supported: ${supportedModelTypes.join(", ")}`,
    );
  // A plain model has the trunk's weights, to which a tied head adds nothing.
  if (architecture !== null && !/(?:ForCausalLM|LMHeadModel|Model)$/.test(architecture))
    refused.push(`head for another task (${describeSetting("architectures", architecture)})`);
  return refused;
}
