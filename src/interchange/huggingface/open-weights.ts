// The tensors of a Hugging Face folder, in whichever of the usual files they stand. Reads headers only.

import { stat } from "node:fs/promises";
import { join } from "node:path";

import {
  openSafetensorsFile,
  openShardedSafetensorsFiles,
  type TensorReader,
} from "../../formats/safetensors/index.node.js";
import { openTorchFile } from "../../formats/torch/index.node.js";
import { HuggingFaceError } from "./errors.js";
import { openTorchShards } from "./torch-shards.js";

export interface OpenWeights {
  readonly path: string;
  readonly reader: TensorReader;
}

/** By preference: what can be read safely and lazily comes first. */
const forms: readonly { readonly file: string; open(path: string): Promise<TensorReader> }[] = [
  { file: "model.safetensors", open: openSafetensorsFile },
  { file: "model.safetensors.index.json", open: openShardedSafetensorsFiles },
  { file: "pytorch_model.bin", open: async (path) => (await openTorchFile(path)).tensors },
  { file: "pytorch_model.bin.index.json", open: openTorchShards },
];

/** @throws HuggingFaceError `huggingface.no_weights`; errors of the formats */
export async function openWeights(folder: string): Promise<OpenWeights> {
  for (const { file, open } of forms) {
    const path = join(folder, file);
    if (await isFile(path)) return { path, reader: await open(path) };
  }
  throw new HuggingFaceError(
    `${folder}: there are no weights: none of ${forms.map(({ file }) => file).join(", ")} is there`,
    { code: "huggingface.no_weights", details: { path: folder } },
  );
}

async function isFile(path: string): Promise<boolean> {
  return stat(path).then(
    (info) => info.isFile(),
    () => false,
  );
}
