// PyTorch files as a set of tensors. A file that holds a training state in the usual way has the model's tensors
// below one key; they are the part `model`, under the names that the model knows.

import type { ByteSource, TensorReader } from "../../formats/safetensors/index.js";
import { readTorchFile, type TorchFile, type TorchValue } from "../../formats/torch/index.js";
import type { TensorSet } from "./tensor-set.js";

/** Where training programs keep a model's state dict, by how common it is. */
const modelKeys = ["model", "state_dict", "model_state_dict", "module"];

/** Opens the file and takes over `source`, which is closed with the set, or if the file cannot be used. */
export async function openTorchSet(input: string, location: string, source: ByteSource): Promise<TensorSet> {
  let file: TorchFile;
  try {
    file = await readTorchFile(source);
  } catch (error) {
    await source.close?.();
    throw error;
  }
  const tied = [...file.tensors.aliases];
  const prefix = modelKey(file.root);
  const within = (name: string) => (prefix === undefined ? name : name.slice(prefix.length + 1));
  const ofModel = (name: string) => prefix === undefined || name.startsWith(`${prefix}.`);
  return {
    input,
    location,
    form: "torch",
    parts: partsOf(file, prefix),
    metadata: new Map(),
    files: [{ name: location, sizeBytes: source.sizeBytes }],
    aliases: Object.fromEntries(
      tied
        .filter(([alias, name]) => ofModel(alias) && ofModel(name))
        .map(([alias, name]) => [within(alias), within(name)]),
    ),
    facts: [["layout", file.format === "zip" ? "zip" : "legacy"], ...otherValues(file.root)],
    close: () => file.close(),
  };
}

function partsOf(file: TorchFile, prefix: string | undefined): ReadonlyMap<string, TensorReader> {
  if (prefix === undefined) return new Map([["model", file.tensors]]);
  const parts = new Map<string, TensorReader>([["model", file.tensorsAt(prefix)]]);
  for (const key of (file.root as ReadonlyMap<TorchValue, TorchValue>).keys()) {
    if (typeof key !== "string" || key === prefix || parts.has(key)) continue;
    const isThere = [...file.tensors.entries.keys()].some((name) => name.startsWith(`${key}.`));
    if (isThere) parts.set(key, file.tensorsAt(key));
  }
  return parts;
}

function modelKey(root: TorchValue): string | undefined {
  if (!(root instanceof Map)) return undefined;
  return modelKeys.find((key) => root.get(key) instanceof Map);
}

/** Plain values that stand at the top beside the tensors, such as a step. */
function otherValues(root: TorchValue): [string, string][] {
  if (!(root instanceof Map)) return [];
  const facts: [string, string][] = [];
  for (const [key, value] of root as ReadonlyMap<TorchValue, TorchValue>) {
    if (typeof key !== "string") continue;
    if (typeof value === "number" || typeof value === "bigint" || typeof value === "string") {
      facts.push([key, String(value).slice(0, 80)]);
    }
  }
  return facts.slice(0, 12);
}
