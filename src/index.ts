// Public surface of the package: what a training script needs. Parts live under their own subpaths.

export type { ConfigInput, SpeedtronicConfig } from "./config/index.js";
export { loadConfigFile, parseConfigText, resolveConfig } from "./config/index.js";
export { buildDataloader } from "./data/index.js";
export { buildModel, registerModel } from "./nn/index.js";
export type { EventMap, Hook } from "./observe/index.js";
export {
  buildRuntime,
  type Resume,
  type Runtime,
  type RuntimeOptions,
  type SyncCoordinator,
  Trainer,
  type TrainerOptions,
  type TrainResult,
  trainFromConfig,
} from "./train/index.js";
export {
  CheckpointError,
  ConfigError,
  DataError,
  InternalError,
  ModelError,
  SpeedtronicError,
  TrainingError,
} from "./util/errors.js";
