// A model's whole state dict while its parameters are the engine's: the values of the engine and the model's own buffers
// under every name, and back.

import type { TrainableModel } from "../nn/contract.js";
import type { StateEntry } from "../nn/state-dict.js";
import type { TensorData } from "../tensor/dtype.js";
import { ModelError } from "../util/errors.js";
import type { TrainEngine } from "./engine/contract.js";

/** The state dict with the engine's values, but for the names in `leavesOut`. Tied names get one object; buffers, which the model may change, a copy. */
export function wholeState(
  model: TrainableModel,
  parameters: ReadonlyMap<string, TensorData>,
  leavesOut: ReadonlySet<string> = new Set(),
): Map<string, TensorData> {
  const values = new Map<StateEntry["owner"], TensorData>();
  for (const [name, parameter] of model.namedParameters()) values.set(parameter, parameters.get(name)!);
  const state = new Map<string, TensorData>();
  for (const { name, owner } of model.stateEntries()) {
    if (leavesOut.has(name)) continue;
    if ("value" in owner && !values.has(owner))
      values.set(owner, { ...owner.value, data: owner.value.data.slice() });
    state.set(name, values.get(owner)!);
  }
  return state;
}

/** Puts a whole state dict into engine and buffers. @throws ModelError `model.incomplete_state`. */
export async function replaceState(
  model: TrainableModel,
  engine: TrainEngine,
  state: ReadonlyMap<string, TensorData>,
): Promise<void> {
  const values = new Map<StateEntry["owner"], TensorData>();
  for (const { name, owner } of model.stateEntries()) {
    const value = state.get(name);
    if (value === undefined)
      throw new ModelError(`the state to be written lacks "${name}"`, {
        code: "model.incomplete_state",
        details: { name },
      });
    if (!values.has(owner)) values.set(owner, value);
  }
  const parameters = new Map<string, TensorData>();
  for (const [name, parameter] of model.namedParameters()) parameters.set(name, values.get(parameter)!);
  await engine.writeParameters(parameters);
  for (const [owner, { data }] of values) if ("value" in owner) owner.value.data.set(data);
}
