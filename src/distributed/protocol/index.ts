// Public surface of the protocol core: reducers and plain data, no I/O.

export { type DataShare, type DataShareOptions, dataShare } from "./data-share.js";
export { ProtocolError, type ProtocolErrorFields, type ProtocolProblem } from "./errors.js";
export {
  CORPUS_KEY,
  LEASE_NODES_KEY,
  type LeaseFieldsOptions,
  leaseFields,
  type RecordFields,
} from "./lease-fields.js";
export { encodeLeases, LEASES_KEY, parseLeases } from "./lease-record.js";
export {
  createLeases,
  DEFAULT_SHARD_COUNT,
  type DoneReport,
  freeShardsFor,
  type LeaseChanges,
  type LeaseSettings,
  type LeaseTable,
  leasesOf,
  type OpenEpoch,
  updateLeases,
  walkOrder,
} from "./leases.js";
export {
  appendEntries,
  type CompactionRules,
  compactLedger,
  EMPTY_LEDGER,
  type Fate,
  findApplied,
  findByContentId,
  findBySha256,
  isInSum,
  isLongDecided,
  type Ledger,
  type LedgerEntry,
} from "./ledger.js";
export { encodeLedger, LEDGER_PATH, parseLedger } from "./ledger-text.js";
export { createMaster, isDrained, stepMaster } from "./master.js";
export type {
  Inspection,
  ListedDelta,
  MasterEffect,
  MasterEvent,
  MasterStart,
  MasterState,
  MasterStep,
  MergeSettings,
  RoundDelta,
  RoundPlan,
} from "./master-contract.js";
export {
  type Merge,
  type MergeInput,
  type MergePolicy,
  median,
  mergeWeights,
  momentumAt,
  NORM_HISTORY,
  tokenShares,
} from "./merge-policy.js";
export { ORDERED_FROM, pathNumber } from "./numbers.js";
export { LEDGER_VERSIONS, reasonCode } from "./round.js";
export {
  type Corpus,
  type DoneShards,
  encodeShardReport,
  groupShards,
  parseShardReport,
  SHARDS_HEADER_KEY,
  type ShardReport,
} from "./shard-report.js";
export { createWorker, isFlushed, stepWorker } from "./worker.js";
export type {
  PendingDelta,
  RestoredWorker,
  SeenVersion,
  WorkerEffect,
  WorkerEvent,
  WorkerSettings,
  WorkerState,
  WorkerStep,
} from "./worker-contract.js";
