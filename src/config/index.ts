// Public surface of the configuration: read it, override it, check it, write it.

export {
  type CompatSwitch,
  type CompatSwitchKey,
  compatSwitches,
} from "./compat-table.js";
export { accumulationSteps, effectiveMaxSteps, prefetchBatches, scheduleHorizon } from "./derived.js";
export { configJsonSchema, type JsonSchema } from "./json-schema.js";
export { loadConfigFile, readConfigFile } from "./load.node.js";
export { applyOverrides, type Override } from "./overrides.js";
export type { ConfigFormat } from "./parse.js";
export type { ConfigProblem, Location } from "./problem.js";
export { formatProblems } from "./problem.js";
export { type ResolveOptions, resolveConfig } from "./resolve.js";
export {
  type CheckpointConfig,
  type CompatConfig,
  type ConfigInput,
  configSchema,
  type DataConfig,
  type DistributedConfig,
  type EvaluationConfig,
  type LoggingConfig,
  type ModelConfig,
  type OptimizerConfig,
  type PrecisionConfig,
  type RunConfig,
  type SamplingConfig,
  type SchedulerConfig,
  type ShapeValidationConfig,
  type SpeedtronicConfig,
} from "./schema.js";
export { REDACTED, Secret } from "./secret.js";
export { formatConfig, type PlainValue, toPlainConfig } from "./serialize.js";
export { ConfigSource } from "./source.js";
export { parseConfigText } from "./text.js";
export {
  collectUnsupported,
  formatUnsupported,
  refuseUnsupported,
  type Unsupported,
  type UnsupportedReport,
} from "./unsupported.js";
