// Public surface of training: `speedtronic/train`. Node only.

export type { CoordinatedRun, SyncCoordinator } from "./coordinator.js";
export type {
  EngineOptions,
  EngineParameter,
  TrainEngine,
  UpdateRequest,
  UpdateResult,
} from "./engine/contract.js";
export { createLocalEngine } from "./engine/local-engine.node.js";
export { WorkerEngine } from "./engine/worker-engine.node.js";
export { loadTrainedModel, type TrainedModel } from "./load-model.node.js";
export type { StopReason, TrainResult } from "./result.js";
export {
  buildRuntime,
  type Resume,
  type Runtime,
  type RuntimeOptions,
  trainFromConfig,
} from "./runtime.node.js";
export { traceEvaluation, traceTraining } from "./trace-model.js";
export { Trainer, type TrainerOptions } from "./trainer.js";
