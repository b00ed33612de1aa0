// A model as a folder that `transformers` loads with the same logits: `config.json`, `generation_config.json`,
// `model.safetensors` and, on request, the files of a tokenizer. Weights are written as float32.

import { copyFile, mkdir, readdir, stat } from "node:fs/promises";
import { basename, join } from "node:path";

import type { Skipped } from "../../checkpoint/directory.js";
import { loadModel } from "../../checkpoint/load.js";
import { resolveConfig } from "../../config/resolve.js";
import type { ConfigInput } from "../../config/schema.js";
import { saveSafetensorsFile, type TensorStream } from "../../formats/safetensors/index.node.js";
import { modelOptionsFromConfig } from "../../nn/models/options.js";
import { ReferenceTransformer } from "../../nn/models/reference-transformer.js";
import { buildModel } from "../../nn/models/registry.js";
import { writeFileAtomically } from "../../util/atomic-file.node.js";
import { ConfigError, ModelError } from "../../util/errors.js";
import { CONFIG_FILE } from "./config-json.js";
import { HuggingFaceError } from "./errors.js";
import { llamaNameOf } from "./tensor-names.js";
import { byteTokenizerFiles, jsonText, TOKENIZER_FILES } from "./tokenizer-files.js";
import { type ExportableModel, isExportable, writeConfig } from "./write-config.js";

export interface ExportOptions {
  /**
   * `bytes`: files of the byte tokenizer, for a model that was trained on bytes (256 ids or more). A path: the
   * tokenizer files of that folder are copied. `none`: no files. Default: `bytes` for a reference model that is
   * large enough, else `none`.
   */
  readonly tokenizer?: "bytes" | "none" | { readonly folder: string };
  /** Replaces the files of a folder that holds a model already. Default false: such a folder is refused. */
  readonly overwrite?: boolean;
}

export interface ExportedModel {
  /** Such as `LlamaForCausalLM`. */
  readonly architecture: string;
  /** Paths of everything that was written. */
  readonly files: readonly string[];
  /** Of the weights. */
  readonly sizeBytes: number;
  /** The checkpoint that was taken; null for a model in memory. */
  readonly checkpoint: string | null;
  /** Newer checkpoints that were passed over because they are damaged. */
  readonly skipped: readonly Skipped[];
}

interface Source {
  readonly model: ExportableModel;
  readonly checkpoint: string | null;
  readonly skipped: readonly Skipped[];
}

const BYTES = 256;
const WEIGHTS_FILE = "model.safetensors";
const GENERATION_FILE = "generation_config.json";

/**
 * Writes `source`, a model or the path of one of this library's checkpoints or runs (its newest good one), into
 * `folder`. Each file appears whole or not at all, `config.json` last.
 * @throws ModelError for a model of another kind, and for one that `transformers` cannot express; HuggingFaceError
 * `huggingface.not_empty` for a folder that holds a model; CheckpointError; FileWriteError
 */
export async function exportHuggingFace(
  source: ExportableModel | string,
  folder: string,
  options: ExportOptions = {},
): Promise<ExportedModel> {
  const { model, checkpoint, skipped } =
    typeof source === "string"
      ? await modelOfCheckpoint(source)
      : { model: requireExportable(source), checkpoint: null, skipped: [] };
  const config = writeConfig(model);
  const tokenizer = await tokenizerOf(model, options.tokenizer);
  if (options.overwrite !== true) await requireNoModel(folder);
  await mkdir(folder, { recursive: true });

  const sizeBytes = await saveSafetensorsFile(join(folder, WEIGHTS_FILE), streamsOf(model), { format: "pt" });
  const texts = new Map(tokenizer.texts);
  texts.set(GENERATION_FILE, jsonText(generationConfig(model)));
  texts.set(CONFIG_FILE, jsonText(config));
  for (const path of tokenizer.copies) await copyFile(path, join(folder, basename(path)));
  for (const [name, text] of texts) await writeFileAtomically(join(folder, name), text);

  const names = [WEIGHTS_FILE, ...tokenizer.copies.map((path) => basename(path)), ...texts.keys()];
  const [architecture] = config.architectures as [string];
  const files = names.map((name) => join(folder, name));
  return { architecture, files, sizeBytes, checkpoint, skipped };
}

/** A tied head stands in the file once, under the embedding's name, as `transformers` writes it. */
function streamsOf(model: ExportableModel): TensorStream[] {
  const rename = model instanceof ReferenceTransformer ? llamaNameOf : (name: string) => name;
  return [...model.namedParameters()].map(([name, { shape, data }]) => ({
    name: rename(name),
    dtype: "F32",
    shape,
    data,
  }));
}

function generationConfig(model: ExportableModel): Record<string, unknown> {
  return {
    bos_token_id: null,
    eos_token_id: null,
    pad_token_id: null,
    max_length: model.blockSize,
  };
}

async function tokenizerOf(
  model: ExportableModel,
  wanted: ExportOptions["tokenizer"],
): Promise<{ texts: ReadonlyMap<string, string>; copies: readonly string[] }> {
  const isByteModel = model instanceof ReferenceTransformer && model.vocabSize >= BYTES;
  const choice = wanted ?? (isByteModel ? "bytes" : "none");
  if (choice === "none") return { texts: new Map(), copies: [] };
  if (choice === "bytes") {
    if (model.vocabSize >= BYTES) return { texts: byteTokenizerFiles(model.blockSize), copies: [] };
    throw new ConfigError(
      `the byte tokenizer needs ${BYTES} ids, the model has ${model.vocabSize}: export it without a tokenizer`,
      { code: "huggingface.tokenizer", details: { vocabSize: model.vocabSize } },
    );
  }
  const present = new Set(await readdir(choice.folder));
  const copies = TOKENIZER_FILES.filter((name) => present.has(name)).map((name) => join(choice.folder, name));
  if (copies.length > 0) return { texts: new Map(), copies };
  throw new ConfigError(`${choice.folder}: there are no tokenizer files, such as ${TOKENIZER_FILES[0]}`, {
    code: "huggingface.tokenizer",
    details: { path: choice.folder },
  });
}

async function requireNoModel(folder: string): Promise<void> {
  for (const name of [CONFIG_FILE, WEIGHTS_FILE]) {
    const isThere = await stat(join(folder, name)).then(
      () => true,
      () => false,
    );
    if (isThere)
      throw new HuggingFaceError(
        `${folder}: there is a ${name} already: choose another folder, or ask for it to be replaced`,
        { code: "huggingface.not_empty", details: { path: folder, file: name } },
      );
  }
}

function requireExportable(model: object): ExportableModel {
  if (isExportable(model)) return model;
  throw new ModelError(
    `a ${model.constructor.name} cannot be exported: transformers has a counterpart for reference_transformer, ` +
      "llama and gpt2 only",
    { code: "huggingface.not_exportable", details: { model: model.constructor.name } },
  );
}

async function modelOfCheckpoint(path: string): Promise<Source> {
  const { content, info, skipped } = await loadModel(path);
  const { model: section, compat, lora } = resolveConfig(content.config as ConfigInput);
  if (lora.rank !== null)
    throw new ConfigError(
      `${info.path} holds adapters only, not the weights under them: merge both first (speedtronic ckpt merge-lora), and export the result`,
      { code: "huggingface.adapters", details: { path: info.path } },
    );
  const model = requireExportable(
    buildModel({ name: section.name, ...modelOptionsFromConfig(section, compat) }),
  );
  model.loadStateDict(content.model);
  return { model, checkpoint: info.path, skipped };
}
