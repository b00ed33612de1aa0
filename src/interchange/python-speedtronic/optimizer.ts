// The optimizer's part of a Python checkpoint: moments by parameter name, in this library's slots.

import { type TorchFile, TorchTensor, type TorchValue } from "../../formats/torch/index.js";
import type { TensorData } from "../../tensor/dtype.js";
import { refuse } from "./failure.js";
import { namesByIndex, namesInOrder, type ParameterGroup } from "./optimizer-order.js";
import { readAllTensors } from "./tensors.js";

/** Per-parameter state that this library knows by the same names. */
const SLOTS = ["exp_avg", "exp_avg_sq", "momentum_buffer"] as const;

export interface ImportedOptimizer {
  /** `<parameter>.exp_avg`, `<parameter>.exp_avg_sq`, `<parameter>.momentum_buffer`. */
  readonly state: Map<string, TensorData>;
  /** Updates that the state has seen. */
  readonly updates: number;
  /** Present learning rate: that of the next update. */
  readonly lr: number;
  /** Parameters without any state. */
  readonly missing: readonly string[];
  readonly notes: readonly string[];
}

/**
 * @param parameters trainable parameters, each tied one once, in the model's order
 * @param order names in the order of the optimizer's indices, where the caller knows better than the rules
 */
export async function importOptimizer(
  file: TorchFile,
  parameters: ReadonlyMap<string, TensorData>,
  order?: readonly string[],
): Promise<ImportedOptimizer> {
  const groups = readGroups(file);
  const entries = stateEntries(file);
  const shapeAt = (index: number) => {
    const entry = entries.get(index);
    const tensor = SLOTS.map((slot) => entry?.get(slot)).find((value) => value instanceof TorchTensor);
    return tensor instanceof TorchTensor ? tensor.shape : undefined;
  };
  const names = order
    ? namesInOrder(groups, order, parameters, shapeAt, file.file)
    : namesByIndex(groups, parameters, shapeAt, file.file);
  const tensors = await readAllTensors(file.tensorsAt("optimizer", "state"));
  const state = new Map<string, TensorData>();
  const seen = new Set<string>();
  const counts = new Set<number>();
  const unknown = new Set<string>();
  for (const [index, entry] of entries) {
    const name = names.get(index);
    if (name === undefined)
      throw refuse("optimizer", file.file, `state ${index} belongs to no parameter group`);
    for (const key of entry.keys()) {
      const tensor = tensors.get(`${index}.${String(key)}`);
      if (key === "step") counts.add(readStep(entry.get(key)!, tensor, file.file));
      else if ((SLOTS as readonly unknown[]).includes(key) && tensor) {
        state.set(`${name}.${String(key)}`, asFloat32(tensor));
        seen.add(name);
      } else unknown.add(String(key));
    }
  }
  const updates = Math.max(0, ...counts);
  const notes = [
    ...(counts.size > 1
      ? [
          `parameters have seen different numbers of updates (${[...counts].sort((a, b) => a - b).join(", ")}); ${updates} is used for all`,
        ]
      : []),
    ...(unknown.size > 0 ? [`optimizer state not imported: ${[...unknown].join(", ")}`] : []),
  ];
  const missing = [...parameters.keys()].filter((name) => !seen.has(name));
  return { state, updates, lr: groups[0]?.lr ?? 0, missing, notes };
}

interface Group extends ParameterGroup {
  readonly lr: number;
}

function readGroups({ root, file }: TorchFile): Group[] {
  const optimizer = root instanceof Map ? root.get("optimizer") : undefined;
  const groups = optimizer instanceof Map ? optimizer.get("param_groups") : undefined;
  if (!Array.isArray(groups)) throw refuse("optimizer", file, "the optimizer state has no param_groups");
  return groups.map((group: TorchValue) => {
    const indices = group instanceof Map ? group.get("params") : undefined;
    if (!(group instanceof Map) || !Array.isArray(indices) || !indices.every(Number.isSafeInteger))
      throw refuse("optimizer", file, "a parameter group of the optimizer has no list of parameters");
    const algorithm = group.get("algorithm") ?? "adamw";
    if (algorithm !== "adamw" && algorithm !== "muon")
      throw refuse("optimizer", file, `a parameter group has the unknown algorithm ${String(algorithm)}`);
    return { algorithm, indices: indices as number[], lr: Number(group.get("lr") ?? 0) };
  });
}

function stateEntries({ root, file }: TorchFile): Map<number, ReadonlyMap<TorchValue, TorchValue>> {
  const optimizer = root instanceof Map ? root.get("optimizer") : undefined;
  const state = optimizer instanceof Map ? optimizer.get("state") : undefined;
  if (!(state instanceof Map)) throw refuse("optimizer", file, "the optimizer state is missing");
  const entries = new Map<number, ReadonlyMap<TorchValue, TorchValue>>();
  for (const [index, entry] of state) {
    if (!Number.isSafeInteger(index) || !(entry instanceof Map))
      throw refuse("optimizer", file, `the optimizer state has an odd entry ${String(index)}`);
    entries.set(index as number, entry);
  }
  return entries;
}

/** AdamW counts in a tensor, Muon in a number. */
function readStep(value: TorchValue, tensor: TensorData | undefined, file: string | undefined): number {
  const step = tensor ? Number(tensor.data[0]) : value;
  if (!Number.isSafeInteger(step) || (step as number) < 0)
    throw refuse("counter", file, `a parameter has seen ${String(step)} updates, which is no count`);
  return step as number;
}

function asFloat32({ dtype, shape, data }: TensorData): TensorData {
  return dtype === "float32"
    ? { dtype, shape, data }
    : { dtype: "float32", shape, data: Float32Array.from(data) };
}
