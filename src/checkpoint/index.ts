// Public surface of checkpoints: one run's state on disk, durable, verified, readable without a program. Node only.

export {
  compareFingerprints,
  type Difference,
  describeDifference,
  environmentNotes,
  explainDifferences,
  type Judgement,
  judgeResume,
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
export { copyCheckpoint } from "./copy.js";
export type { Skipped } from "./directory.js";
export type { FileOperation } from "./disk.js";
export type { CheckpointInfo, ModelContent, OpenedContent, OpenedModel } from "./folder-reader.js";
export type { WeightsContent } from "./folder-writer.js";
export {
  type Loaded,
  type LoadedCheckpoint,
  loadCheckpoint,
  loadModel,
  type OpenedCheckpoint,
  openCheckpoint,
  openLoaded,
  openModel,
  verifyCheckpoint,
} from "./load.js";
export {
  type LoadPlan,
  type LoadWeightsOptions,
  loadWeights,
  planLoad,
  type WeightsSource,
  weightsOfReader,
} from "./load-weights.js";
export type { Lock } from "./lock.js";
export { FORMAT_VERSION, type Manifest, type ParentReference } from "./manifest.js";
export * from "./names/index.js";
export type { RetentionPolicy } from "./retention.js";
export { CheckpointStore, type CheckpointStoreOptions, type SavedCheckpoint } from "./store.js";
export type { StoredTensor, StoredTensors } from "./stored-tensors.js";
export type { TiedTensors } from "./tensor-file.js";
export { type SaveWeightsOptions, saveWeightsFolder } from "./weights-folder.js";
