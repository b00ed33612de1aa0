// From stored tensors into the parameters and buffers of a model: names mapped, everything compared, then read one
// tensor at a time. Knows no files; stored-tensors.ts and the readers of formats do.

import { type TensorReader, tensorView, toFloat32 } from "../formats/safetensors/index.js";
import type { Module } from "../nn/module.js";
import type { StateEntry } from "../nn/state-dict.js";
import { isFloating, type TensorData } from "../tensor/dtype.js";
import { CheckpointError } from "../util/errors.js";
import {
  canonicalNames,
  checkFit,
  type ExpectedTensor,
  type FitReport,
  type LoadPolicy,
  planRenames,
  type RenameRule,
  requireCleanPlan,
  type TensorShape,
} from "./names/index.js";

export interface LoadWeightsOptions extends LoadPolicy {
  /** Applied before wrappers' prefixes are taken away. */
  readonly rules?: readonly RenameRule[];
}

/** Tensors to load from. */
export interface WeightsSource {
  /** dtype as the host calls it (`float32` …), or as the format does where the host has none. */
  readonly entries: ReadonlyMap<string, TensorShape>;
  read(name: string): Promise<TensorData>;
}

export interface LoadPlan {
  readonly report: FitReport;
  /** Which stored name each parameter and persistent buffer takes its values from; absent where it keeps its own. */
  readonly sources: ReadonlyMap<StateEntry["owner"], string>;
}

/**
 * Decides what goes where, without changing anything. Reads values only of tied tensors that are stored repeatedly.
 * @throws CheckpointError `checkpoint.does_not_fit`, `checkpoint.tied_values_differ`, and those of renaming.
 */
export async function planLoad(
  model: Module,
  source: WeightsSource,
  options: LoadWeightsOptions = {},
): Promise<LoadPlan> {
  const names = new Map<StateEntry["owner"], string[]>();
  for (const { name, owner } of model.stateEntries()) names.set(owner, [...(names.get(owner) ?? []), name]);
  const byRules = requireCleanPlan(planRenames(source.entries.keys(), options.rules ?? []));
  const canonical = canonicalNames(byRules.values(), new Set([...names.values()].flat()));
  const mapping = [...byRules].map(([from, between]) => ({ from, to: canonical.get(between)! }));
  const storedName = new Map(mapping.map(({ from, to }) => [to, from]));
  const found = new Map(mapping.map(({ from, to }) => [to, source.entries.get(from)!]));
  const renamed = mapping.filter(({ from, to }) => from !== to);
  const expected = [...names].map(([owner, own]) => expectationOf(owner, own));
  const report = checkFit(expected, found, options, renamed);

  const loaded = new Set(report.loaded);
  const sources = new Map<StateEntry["owner"], string>();
  for (const [owner, own] of names) {
    const [first, ...others] = own.filter((name) => loaded.has(name)).map((name) => storedName.get(name)!);
    if (first === undefined) continue;
    for (const other of others) await requireSameValues(source, first, other);
    sources.set(owner, first);
  }
  return { report, sources };
}

/**
 * Loads what fits into the model's own arrays. Everything is compared before the first value is changed.
 * @throws as {@link planLoad}; errors of reading pass through, and the model is then loaded in part.
 */
export async function loadWeights(
  model: Module,
  source: WeightsSource,
  options: LoadWeightsOptions = {},
): Promise<FitReport> {
  const { report, sources } = await planLoad(model, source, options);
  for (const [owner, name] of sources) {
    const target = "value" in owner ? owner.value : owner.toData();
    target.data.set((await source.read(name)).data);
  }
  return report;
}

/** Tensors of a file in any format that has a reader. Floats narrower than 32 bits are widened. */
export function weightsOfReader(reader: TensorReader): WeightsSource {
  const hostNames: Readonly<Record<string, string>> = { F64: "float64", I32: "int32", BOOL: "bool" };
  const isWidened = (dtype: string) =>
    dtype === "F32" || dtype === "F16" || dtype === "BF16" || dtype.startsWith("F8");
  const dtypeOf = (dtype: string) => (isWidened(dtype) ? "float32" : (hostNames[dtype] ?? dtype));
  return {
    entries: new Map(
      [...reader.entries].map(([name, { dtype, shape }]) => [name, { dtype: dtypeOf(dtype), shape }]),
    ),
    read: async (name) => {
      const tensor = await reader.read(name);
      const { dtype, shape } = tensor;
      if (isWidened(dtype)) return { dtype: "float32", shape, data: toFloat32(tensor) };
      if (dtype === "F64") return { dtype: "float64", shape, data: tensorView({ ...tensor, dtype }) };
      if (dtype === "I32") return { dtype: "int32", shape, data: tensorView({ ...tensor, dtype }) };
      if (dtype === "BOOL") return { dtype: "bool", shape, data: tensorView({ ...tensor, dtype }) };
      throw new CheckpointError(
        `tensor "${name}" has dtype ${dtype}, which no model here computes with; convert it first`,
        { code: "checkpoint.unsupported_dtype", details: { tensor: name, dtype } },
      );
    },
  };
}

/** A parameter takes any float, since it is float32 by its own choice; a buffer's dtype is part of what it means. */
function expectationOf(owner: StateEntry["owner"], names: readonly string[]): ExpectedTensor {
  if ("value" in owner) return { names, dtype: owner.value.dtype, shape: owner.value.shape };
  const accepts = (dtype: string) => isFloating(dtype as TensorData["dtype"]);
  return { names, dtype: "float32", shape: owner.shape, accepts };
}

async function requireSameValues(source: WeightsSource, first: string, second: string): Promise<void> {
  const places = [first, second].map(
    (name) => (source.entries.get(name) as { source?: string }).source ?? name,
  );
  if (places[0] === places[1]) return;
  const [a, b] = [(await source.read(first)).data, (await source.read(second)).data];
  if (a.length === b.length && a.every((value, i) => Object.is(value, b[i]))) return;
  throw new CheckpointError(
    `"${first}" and "${second}" are one tied tensor of this model, but their values differ: leave one of them out, ` +
      "or build the model without tied weights",
    { code: "checkpoint.tied_values_differ", details: { names: [first, second] } },
  );
}
