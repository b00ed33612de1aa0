// Which parameter an index of Python Speedtronic's optimizer state stands for. PyTorch numbers parameters through
// the groups; which parameter is in which group the Python system decides by rules, repeated here.

import type { TensorData } from "../../tensor/dtype.js";
import { refuse } from "./failure.js";

export interface ParameterGroup {
  /** `adamw` or `muon`. */
  readonly algorithm: string;
  readonly indices: readonly number[];
}

/** Parts of a name that keep a matrix away from Muon. */
const NOT_HIDDEN = new Set(
  "embed embedding wte wpe lm_head classifier output output_proj score score_proj head".split(" "),
);

/** Whether the Python system gives the parameter to Muon, as far as name and shape tell: hidden matrices. */
export function isRoutedToMuon(name: string, { shape, dtype }: TensorData): boolean {
  const parts = name.toLowerCase().split(".");
  const isFloat = dtype !== "int32" && dtype !== "bool";
  return (
    isFloat && shape.length === 2 && !name.endsWith("bias") && !parts.some((part) => NOT_HIDDEN.has(part))
  );
}

/** Shape of the state at an index, where there is any. */
export type StateShape = (index: number) => readonly number[] | undefined;

/**
 * Parameter name per index. Tried in turn: the rules of the Python system, and all parameters in their order (as
 * when every module is marked for AdamW). The shapes of the state must agree.
 *
 * @param parameters trainable parameters by name, each tied one once, in the model's order
 * @throws CheckpointError `python_checkpoint.optimizer` when neither fits
 */
export function namesByIndex(
  groups: readonly ParameterGroup[],
  parameters: ReadonlyMap<string, TensorData>,
  shapeAt: StateShape,
  file: string | undefined,
): Map<number, string> {
  const all = [...parameters.keys()];
  const isMuon = (name: string) => isRoutedToMuon(name, parameters.get(name)!);
  const routed: Record<string, string[]> = {
    muon: all.filter(isMuon),
    adamw: all.filter((name) => !isMuon(name)),
  };
  const candidates = [(algorithm: string) => routed[algorithm] ?? [], () => all];
  const misfits: string[] = [];
  for (const namesOf of candidates) {
    const names = new Map<number, string>();
    const misfit = groups
      .map((group) => assign(group, namesOf(group.algorithm), names))
      .find((text) => text !== undefined);
    const problem = misfit ?? findShapeMisfit(names, parameters, shapeAt);
    if (problem === undefined) return names;
    misfits.push(problem);
  }
  throw refuse(
    "optimizer",
    file,
    `it cannot be told which parameters the optimizer state belongs to: ${misfits.join("; ")}. Import without ` +
      "the optimizer, or name the parameters in the optimizer's order",
    { groups: groups.map(({ algorithm, indices }) => ({ algorithm, count: indices.length })) },
  );
}

/** {@link namesByIndex} with an order that the caller knows. */
export function namesInOrder(
  groups: readonly ParameterGroup[],
  order: readonly string[],
  parameters: ReadonlyMap<string, TensorData>,
  shapeAt: StateShape,
  file: string | undefined,
): Map<number, string> {
  const indices = groups.flatMap((group) => group.indices);
  const names = new Map<number, string>();
  const unknown = order.find((name) => !parameters.has(name));
  const problem =
    unknown === undefined
      ? (assign({ algorithm: "every", indices }, order, names) ?? findShapeMisfit(names, parameters, shapeAt))
      : `the model has no parameter "${unknown}"`;
  if (problem !== undefined)
    throw refuse(
      "optimizer",
      file,
      `the given order of parameters does not fit the optimizer state: ${problem}`,
    );
  return names;
}

function assign(
  { algorithm, indices }: ParameterGroup,
  names: readonly string[],
  into: Map<number, string>,
): string | undefined {
  if (indices.length !== names.length)
    return `the ${algorithm} group has ${indices.length} parameters where the rule gives ${names.length}`;
  for (const [i, index] of indices.entries()) into.set(index, names[i]!);
  return undefined;
}

function findShapeMisfit(
  names: ReadonlyMap<number, string>,
  parameters: ReadonlyMap<string, TensorData>,
  shapeAt: StateShape,
): string | undefined {
  for (const [index, name] of names) {
    const shape = shapeAt(index);
    const expected = parameters.get(name)!.shape;
    if (shape === undefined || shape.join() === expected.join()) continue;
    return `state ${index} has shape [${shape.join(", ")}], parameter "${name}" has [${expected.join(", ")}]`;
  }
  return undefined;
}
