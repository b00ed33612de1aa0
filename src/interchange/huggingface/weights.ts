// Values from the tensors of a folder into a model, tensor by tensor, after names and shapes have been compared:
// no second copy of the weights arises, and nothing is left at its initial value.

import { type TensorReader, toFloat32 } from "../../formats/safetensors/index.js";
import type { Module } from "../../nn/module.js";
import type { Shape } from "../../tensor/shape.js";
import { HuggingFaceError } from "./errors.js";

/** What parameters, which are float32, can be read from. */
const floatDtypes: ReadonlySet<string> = new Set(["F32", "F16", "BF16", "F64"]);

/**
 * Fills every parameter of `model`. `names`: file name → model name.
 * @throws HuggingFaceError `huggingface.weights` listing what is missing, unexpected or of another shape or dtype;
 * `huggingface.tied_values_differ`; errors of the reader
 */
export async function readWeights(
  model: Module,
  reader: TensorReader,
  names: ReadonlyMap<string, string>,
  path: string,
): Promise<void> {
  const targets = model.stateDict();
  checkWeights(targets, reader, names, path);
  const filled = new Map<unknown, string>();
  for (const [fileName, name] of names) {
    const data = targets.get(name)!.data as Float32Array;
    const earlier = filled.get(data);
    if (earlier === undefined) await readFloats(reader, fileName, data);
    else await requireSame(reader, fileName, data, earlier, path);
    filled.set(data, fileName);
  }
}

async function readFloats(reader: TensorReader, name: string, target: Float32Array): Promise<void> {
  if (reader.entry(name).dtype === "F32") await reader.readInto(name, target);
  else target.set(toFloat32(await reader.read(name)));
}

async function requireSame(
  reader: TensorReader,
  name: string,
  data: Float32Array,
  earlier: string,
  path: string,
): Promise<void> {
  const values = toFloat32(await reader.read(name));
  if (values.every((value, i) => Object.is(value, data[i]))) return;
  throw new HuggingFaceError(
    `${path}: "${earlier}" and "${name}" are one tied tensor of this model (tie_word_embeddings), but their values ` +
      "differ: set tie_word_embeddings to false in config.json if the head is one of its own",
    { code: "huggingface.tied_values_differ", details: { path, names: [earlier, name] } },
  );
}

function checkWeights(
  targets: ReadonlyMap<string, { readonly shape: Shape; readonly data: ArrayBufferView }>,
  reader: TensorReader,
  names: ReadonlyMap<string, string>,
  path: string,
): void {
  const given = new Set<string>();
  const unexpected: string[] = [];
  const mismatched: string[] = [];
  for (const [fileName, name] of names) {
    const target = targets.get(name);
    if (target === undefined) {
      unexpected.push(fileName);
      continue;
    }
    given.add(name);
    const { dtype, shape } = reader.entry(fileName);
    const wanted = `[${target.shape.join(", ")}]`;
    const found = `[${shape.join(", ")}]`;
    if (found !== wanted) mismatched.push(`${fileName}: the model has ${wanted}, the file ${found}`);
    else if (!floatDtypes.has(dtype))
      mismatched.push(`${fileName}: ${dtype} values, where floating-point ones are wanted`);
  }
  const present = new Set([...given].map((name) => targets.get(name)!.data));
  const missing = [...targets].filter(([, { data }]) => !present.has(data)).map(([name]) => name);
  if (missing.length + unexpected.length + mismatched.length === 0) return;
  const lines = [
    ...list("missing", missing),
    ...list("unexpected", unexpected),
    ...list("not fitting", mismatched),
  ];
  throw new HuggingFaceError(
    `${path}: the weights are not those that config.json describes\n${lines.join("\n")}`,
    {
      code: "huggingface.weights",
      details: { path, missing, unexpected, mismatched },
    },
  );
}

/** At most ten: a wholly different model would fill the screen. */
function list(title: string, names: readonly string[]): string[] {
  if (names.length === 0) return [];
  const more = names.length > 10 ? [`  … and ${names.length - 10} more`] : [];
  return [`${title} (${names.length}):`, ...names.slice(0, 10).map((name) => `  ${name}`), ...more];
}
