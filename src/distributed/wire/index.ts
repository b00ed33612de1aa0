// Public surface of the wire format that runs anywhere. Node programs take index.node.ts, which adds files on disk.

export { type Delta, loadDelta, writeDelta } from "./delta-file.js";
export {
  type DeltaHeader,
  type DeltaHeaderInput,
  deltaMetadata,
  headerContradictions,
  NO_BASE,
  parseDeltaHeader,
} from "./delta-header.js";
export {
  compareDeltaPaths,
  type DeltaPath,
  deltaPath,
  type OddDeltaPath,
  type OtherPath,
  parseDeltaPath,
} from "./delta-path.js";
export { type DeltaDescription, DeltaSummary, describeDelta } from "./delta-summary.js";
export { WireError, type WireErrorFields, type WireProblem } from "./errors.js";
export { averageDeltas, type MergeOptions } from "./mean.js";
export { metadataJson } from "./metadata-json.js";
export { checkModelFile, LATEST_MODEL_FILE, modelFileProblem, versionedModelFile } from "./model-file.js";
export { checkNodeId, nodeIdProblem, peerNodeIdProblem } from "./node-id.js";
export { type OuterKernels, portableKernels } from "./outer-kernels.js";
export { type OuterPiece, type OuterStep, type OuterStepInputs, outerStep } from "./outer-step.js";
export { computePseudoGradient, type PseudoGradientOptions } from "./pseudo-gradient.js";
export { encodePythonJson, type JsonValue } from "./python-json.js";
export { floatingState, isFloatingDtype, type StateInput } from "./state.js";
export {
  ALGORITHM,
  encodeVersionRecord,
  formatUpdatedAt,
  OPTIMIZER,
  parseVersionRecord,
  VERSION_RECORD_PATH,
  type VersionRecord,
} from "./version-record.js";
export { createWasmKernels } from "./wasm-kernels.js";
export { type OuterStepSinks, type OuterStepSizes, writeOuterStep } from "./write-outer-step.js";
