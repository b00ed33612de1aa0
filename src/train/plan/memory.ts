// What a run needs of memory and disk, from its configuration and its traced graph. Bytes throughout.

import { accumulationSteps, effectiveMaxSteps } from "../../config/derived.js";
import type { SpeedtronicConfig } from "../../config/schema.js";
import type { TrainableModel } from "../../nn/contract.js";
import { optimizerNamed } from "../../optim/index.js";
import { sizeOf } from "../../tensor/shape.js";
import { parameterRules } from "../optimizer-options.js";

export interface MemoryPlan {
  readonly weights: number;
  readonly gradients: number;
  /** What the optimizer keeps: first and second moments, or a momentum. */
  readonly moments: number;
  /** Gradients of further micro-batches, until they are added. */
  readonly accumulation: number;
  /** Largest sum of values that are alive at once in forward and backward pass. */
  readonly activations: number;
  /** Copy of weights and moments from which checkpoints are written while training goes on. */
  readonly snapshot: number;
  /** Node.js and ONNX Runtime themselves; measured, about the same for every run. */
  readonly runtime: number;
  readonly total: number;
}

export interface DiskPlan {
  readonly perCheckpoint: number;
  /** Checkpoints that lie there at once, with the one being written. */
  readonly checkpoints: number;
  readonly total: number;
}

/** Resident size of a process that has loaded everything and trains a model of next to nothing. */
const runtimeBytes = 180e6;

export interface StateBytes {
  readonly weights: number;
  readonly trainable: number;
  readonly moments: number;
}

export function stateBytes(config: SpeedtronicConfig, model: TrainableModel): StateBytes {
  const rules = parameterRules(config, model);
  let [weights, trainable, moments] = [0, 0, 0];
  for (const [name, parameter] of model.namedParameters()) {
    const bytes = 4 * sizeOf(parameter.shape);
    weights += bytes;
    if (!parameter.trainable) continue;
    trainable += bytes;
    moments += bytes * optimizerNamed(rules.get(name) ?? config.optimizer.name)!.slots.length;
  }
  return { weights, trainable, moments };
}

export function planMemory(config: SpeedtronicConfig, state: StateBytes, activations: number): MemoryPlan {
  const { weights, trainable, moments } = state;
  const parts = {
    weights,
    gradients: trainable,
    moments,
    accumulation: accumulationSteps(config) > 1 ? trainable : 0,
    activations,
    snapshot: config.checkpoint.enabled ? weights + moments : 0,
    runtime: runtimeBytes,
  };
  return { ...parts, total: Object.values(parts).reduce((sum, bytes) => sum + bytes, 0) };
}

export function planDisk(config: SpeedtronicConfig, { weights, trainable, moments }: StateBytes): DiskPlan {
  const { enabled, every_steps, keep_last, keep_best, keep_every } = config.checkpoint;
  if (!enabled) return { perCheckpoint: 0, checkpoints: 0, total: 0 };
  const steps = effectiveMaxSteps(config);
  const made = Math.ceil(steps / every_steps);
  const milestones = keep_every === null ? 0 : Math.floor(steps / keep_every);
  const kept = keep_last === null ? made : keep_last + Number(keep_best) + milestones;
  const checkpoints = Math.min(kept, made) + 1;
  // Of adapters, not of what is under them.
  const perCheckpoint = (config.lora.rank === null ? weights : trainable) + moments;
  return { perCheckpoint, checkpoints, total: checkpoints * perCheckpoint };
}
