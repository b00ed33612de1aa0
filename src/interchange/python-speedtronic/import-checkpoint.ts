// A checkpoint of Python Speedtronic 2.0 (`step_000000000500.pt`) as a checkpoint of this library. Weights, moments,
// counters, schedule and configuration come over; random generators of other libraries and the coordinator's state
// do not, which the report says.

import type { CheckpointContent, JsonObject, TrainerState } from "../../checkpoint/content.js";
import {
  accumulationSteps,
  type SpeedtronicConfig,
  scheduleHorizon,
  toPlainConfig,
} from "../../config/index.js";
import { kindOf, type TorchFile, type TorchValue } from "../../formats/torch/index.js";
import { modelNames } from "../../nn/models/registry.js";
import type { TensorData } from "../../tensor/dtype.js";
import { type CompatChoice, importConfig } from "./config.js";
import { refuse } from "./failure.js";
import { fingerprintOf } from "./fingerprint.js";
import { type ImportedOptimizer, importOptimizer } from "./optimizer.js";
import { toPlain } from "./plain.js";
import { readAllTensors } from "./tensors.js";

export interface PythonImportOptions {
  /** Rules of the imported configuration. Default `python`: those that the run was started with. */
  readonly compat?: CompatChoice;
  /** Leave the optimizer's state out; it starts from zeros. */
  readonly withoutOptimizer?: boolean;
  /** Parameter names in the order of the optimizer's indices, for models that the rules do not fit. */
  readonly optimizerOrder?: readonly string[];
}

export interface PythonImport {
  readonly content: CheckpointContent;
  readonly report: PythonImportReport;
}

export interface PythonImportReport {
  readonly step: number;
  /** Parameters whose moments the file lacks: they start at zero. Python's AdamW leaves hidden matrices out. */
  readonly missingMoments: readonly string[];
  /** Parts of the file that were left out, with the reason. */
  readonly leftOut: readonly string[];
  readonly notes: readonly string[];
}

/** Whether a file has the parts of a checkpoint of Python Speedtronic. */
export function isPythonCheckpoint({ root }: TorchFile): boolean {
  return root instanceof Map && root.get("model") instanceof Map && root.has("step") && root.has("optimizer");
}

/**
 * Reads everything. The data loader starts afresh, as the Python system's does on resume.
 * @throws CheckpointError `python_checkpoint.*` for a file of another kind, TorchFileError for a damaged one
 */
export async function importPythonCheckpoint(
  file: TorchFile,
  options: PythonImportOptions = {},
): Promise<PythonImport> {
  const { root } = file;
  if (!isPythonCheckpoint(file) || !(root instanceof Map))
    throw refuse(
      "not_a_checkpoint",
      file.file,
      "no checkpoint of Python Speedtronic: it must be a dict with model, optimizer and step",
      { keys: root instanceof Map ? [...root.keys()].map(String) : [] },
    );
  const config = importConfig(root.get("config") ?? null, options.compat ?? "python", file.file);
  const model = await readAllTensors(file.tensorsAt("model"));
  const parameters = uniqueTensors(model, config);
  const optimizer =
    options.withoutOptimizer || !(root.get("optimizer") instanceof Map)
      ? emptyOptimizer(parameters, config)
      : await importOptimizer(file, parameters, options.optimizerOrder);
  const trainer = trainerState(file, root, config, optimizer);
  const content: CheckpointContent = {
    model,
    optimizer: optimizer.state,
    trainer,
    config: toPlainConfig(config) as Record<string, unknown>,
    fingerprint: fingerprintOf(config),
    environment: {
      threads: 1,
      cpu: "unknown",
      node: "none",
      library: "speedtronic (Python)",
      platform: "unknown",
    },
  };
  const report = {
    step: trainer.step,
    missingMoments: optimizer.missing,
    leftOut: leftOut(root),
    notes: [...optimizer.notes, ...(modelNames().includes(config.model.name) ? [] : [unknownModel(config)])],
  };
  return { content, report };
}

/** Tied names stand for one parameter, whose first name counts. */
function uniqueTensors(
  model: ReadonlyMap<string, TensorData>,
  config: SpeedtronicConfig,
): Map<string, TensorData> {
  const unique = new Map<string, TensorData>();
  const seen = new Set<TensorData>();
  for (const [name, tensor] of model) {
    const isTiedHead =
      config.model.tie_weights && name === "lm_head.weight" && model.has("transformer.wte.weight");
    if (seen.has(tensor) || isTiedHead) continue;
    seen.add(tensor);
    unique.set(name, tensor);
  }
  return unique;
}

function emptyOptimizer(
  parameters: ReadonlyMap<string, TensorData>,
  config: SpeedtronicConfig,
): ImportedOptimizer {
  const { lr } = config.optimizer;
  return { state: new Map(), updates: 0, lr, missing: [...parameters.keys()], notes: [] };
}

function trainerState(
  { file }: TorchFile,
  root: ReadonlyMap<TorchValue, TorchValue>,
  config: SpeedtronicConfig,
  optimizer: ImportedOptimizer,
): TrainerState {
  const counter = (name: string) => {
    const value = root.get(name) ?? 0;
    if (!Number.isSafeInteger(value) || (value as number) < 0)
      throw refuse("counter", file, `${name} is ${kindOf(value)} ${String(value)}, which is no count`);
    return value as number;
  };
  const step = counter("step");
  const extra: JsonObject = {
    importedFrom: "speedtronic-python",
    scheduler: toPlain(root.get("scheduler") ?? null),
    precision: toPlain(root.get("precision") ?? null),
  };
  return {
    step,
    samples: counter("samples"),
    tokens: counter("tokens"),
    data: { epoch: 0, position: 0 },
    rng: { seed: config.run.seed },
    schedule: {
      lr: optimizer.lr,
      // Where the curve was, so that a run with another end goes on from there.
      ...(optimizer.updates > 0 && {
        name: config.scheduler.name,
        horizon: scheduleHorizon(config),
        factor: optimizer.lr / config.optimizer.lr,
        joint: null,
      }),
    },
    bestValidation: null,
    counters: {
      microbatches: step * accumulationSteps(config),
      optimizerUpdates: optimizer.updates,
      skippedUpdates: 0,
    },
    coordinator: null,
    extra,
  };
}

function leftOut(root: ReadonlyMap<TorchValue, TorchValue>): string[] {
  const reasons: Readonly<Record<string, string>> = {
    rng: "random generators of Python, numpy and PyTorch are not used here",
    scaler: "float16 loss scaling is not used here",
    coordinator: "the state of the exchange with other machines is not carried over",
  };
  const known = new Set([..."model optimizer scheduler step samples tokens config precision".split(" ")]);
  return [...root]
    .filter(([key, value]) => value !== null && !known.has(String(key)))
    .map(([key]) => `${String(key)}: ${reasons[String(key)] ?? "not known to this import"}`);
}

function unknownModel({ model }: SpeedtronicConfig): string {
  return `model "${model.name}" is not registered here; a program that registers it can load the checkpoint`;
}
