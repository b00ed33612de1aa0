// Public surface of distributed training that runs anywhere.

export { Aggregator } from "./node/aggregator.js";
export { memoryOutbox } from "./node/outbox.js";
export { WorkerNode } from "./node/worker-driver.js";
export * from "./protocol/index.js";
export * from "./simulate/index.js";
export type {
  CallOptions,
  CommitRequest,
  FileContent,
  RepoFile,
  RepoOperation,
  Transport,
} from "./transports/contract.js";
export { type HubAddress, type HubSettings, resolveHub } from "./transports/endpoint.js";
export { TransportError, type TransportProblem } from "./transports/errors.js";
export { listedFaults, type SeededFaults, seededFaults } from "./transports/fault-plans.js";
export {
  type Fault,
  type FaultCall,
  type FaultKind,
  type FaultMethod,
  type FaultOptions,
  type FaultPlan,
  withFaults,
} from "./transports/faults.js";
export { HubTransport, type HubTransportOptions } from "./transports/hub.js";
export {
  forgetMemoryRepository,
  type MemoryCommit,
  MemoryRepository,
  type MemoryRepositoryOptions,
  MemoryTransport,
  sharedMemoryRepository,
} from "./transports/memory.js";
export * from "./wire/index.js";
