// Public surface of training: `speedtronic/train`. Node only.

export { type CustomRule, type RuleTensor, registerOptimizer } from "../optim/index.js";
export { formatRoutes, type Route } from "../optim/routing.js";
export {
  buildSchedule,
  type CustomCurve,
  RunSchedule,
  registerSchedule,
  type Schedule,
  type ScheduleOptions,
} from "../schedule/index.js";
export { createOnnxBackend, type OnnxBackendOptions } from "../tensor/backends/onnx/backend.node.js";
export type { CoordinatedRun, CoordinatorTensors, SyncCoordinator } from "./coordinator.js";
export { type DiagnoseOptions, diagnose } from "./doctor/diagnose.js";
export type { CheckResult, Diagnosis, Finding } from "./doctor/finding.js";
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
export { type LoadTrainedOptions, loadTrainedModel, type TrainedModel } from "./load-model.node.js";
export { type MergeAdaptersOptions, type MergedAdapters, mergeAdapters } from "./merge-adapters.node.js";
export type { Resume } from "./open-checkpoints.node.js";
export { optimizerRoutes } from "./optimizer-options.js";
export { type PlannedRun, planRun, type RunPlan } from "./plan/plan-run.js";
export { type Probe, probeSpeed } from "./plan/probe.js";
export type { PluginApi, PluginRegister } from "./plugins/api.js";
export { type LoadedPlugins, loadPlugins } from "./plugins/load.node.js";
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
