// Public surface of training: `speedtronic/train`. Node only.

export { formatRoutes, type Route } from "../optim/routing.js";
export { buildSchedule, type Schedule, type ScheduleOptions } from "../schedule/index.js";
export { createOnnxBackend, type OnnxBackendOptions } from "../tensor/backends/onnx/backend.node.js";
export type { CoordinatedRun, SyncCoordinator } from "./coordinator.js";
export type {
  ArrayPart,
  EngineDescription,
  EngineOptions,
  EngineParameter,
  EngineSnapshot,
  TrainEngine,
  UpdateRequest,
  UpdateResult,
} from "./engine/contract.js";
export { createLocalEngine } from "./engine/local-engine.node.js";
export { WorkerEngine } from "./engine/worker-engine.node.js";
export type { InitialWeights } from "./initial-weights.node.js";
export { loadTrainedModel, type TrainedModel } from "./load-model.node.js";
export type { Resume } from "./open-checkpoints.node.js";
export { optimizerRoutes } from "./optimizer-options.js";
export type { StopReason, TrainResult } from "./result.js";
export {
  buildRuntime,
  type Runtime,
  type RuntimeOptions,
  trainFromConfig,
} from "./runtime.node.js";
export { traceEvaluation, traceTraining } from "./trace-model.js";
export { Trainer } from "./trainer.js";
export type { TrainerOptions } from "./trainer-options.js";
