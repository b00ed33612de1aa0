// The master's `outer_state.pt` of Python Speedtronic: global weights, momentum of the outer optimizer, and the
// ledger of what has been added.

import type { TorchFile, TorchValue } from "../../formats/torch/index.js";
import type { TensorData } from "../../tensor/dtype.js";
import { refuse } from "./failure.js";
import { readAllTensors } from "./tensors.js";

export interface ProcessedDelta {
  readonly node: string;
  readonly localStep: number;
  readonly baseOuterStep: number;
}

export interface PythonOuterState {
  readonly globalState: ReadonlyMap<string, TensorData>;
  readonly outerStep: number;
  readonly processedDeltas: readonly ProcessedDelta[];
  /** Nesterov momentum by tensor name, float32. */
  readonly momentum: ReadonlyMap<string, TensorData>;
}

/**
 * @param path where the state stands in the file: nothing for `outer_state.pt`, `coordinator`, `outer` for a master's
 * checkpoint
 * @throws CheckpointError `python_checkpoint.not_an_outer_state`
 */
export async function importPythonOuterState(file: TorchFile, ...path: string[]): Promise<PythonOuterState> {
  const state = file.valueAt(...path);
  if (!(state instanceof Map) || !(state.get("global_state") instanceof Map))
    throw refuse(
      "not_an_outer_state",
      file.file,
      "no outer state of Python Speedtronic: it has no global_state",
    );
  const outerStep = state.get("outer_step") ?? 0;
  const deltas = state.get("processed_deltas") ?? [];
  if (!Number.isSafeInteger(outerStep) || (outerStep as number) < 0)
    throw refuse("counter", file.file, `outer_step is ${String(outerStep)}, which is no count`);
  if (!Array.isArray(deltas)) throw refuse("not_an_outer_state", file.file, "processed_deltas is no list");
  return {
    globalState: await readAllTensors(file.tensorsAt(...path, "global_state")),
    outerStep: outerStep as number,
    processedDeltas: deltas.map((delta: TorchValue) => readDelta(delta, file.file)),
    momentum: state.has("momentum") ? await readAllTensors(file.tensorsAt(...path, "momentum")) : new Map(),
  };
}

function readDelta(delta: TorchValue, file: string | undefined): ProcessedDelta {
  const [node, localStep, baseOuterStep] =
    Array.isArray(delta) && delta.length === 3 ? (delta as TorchValue[]) : [];
  if (typeof node !== "string" || !Number.isSafeInteger(localStep) || !Number.isSafeInteger(baseOuterStep))
    throw refuse("not_an_outer_state", file, "an entry of processed_deltas is not [node, step, base]");
  return { node, localStep: localStep as number, baseOuterStep: baseOuterStep as number };
}
