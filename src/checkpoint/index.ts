// Public surface of checkpoints: one run's state on disk, durable, verified, readable without a program. Node only.

export {
  compareFingerprints,
  type Difference,
  describeDifference,
  environmentNotes,
  explainDifferences,
  requireSameModel,
} from "./compare.js";
export type {
  CheckpointContent,
  Environment,
  Fingerprint,
  JsonObject,
  JsonValue,
  TrainerState,
} from "./content.js";
export type { Skipped } from "./directory.js";
export type { FileOperation } from "./disk.js";
export type { CheckpointInfo, ModelContent } from "./folder-reader.js";
export { type Loaded, type LoadedCheckpoint, loadCheckpoint, loadModel, verifyCheckpoint } from "./load.js";
export type { Lock } from "./lock.js";
export type { Manifest, ParentReference } from "./manifest.js";
export { CheckpointStore, type CheckpointStoreOptions, type SavedCheckpoint } from "./store.js";
export type { TiedTensors } from "./tensor-file.js";
