// Public surface of observing: the logger, its sinks, the catalogue of events, rates, and number text.
export { buildLogger, type LoggerOptions } from "./build-logger.node.js";
export {
  type EventMap,
  type EventName,
  eventCatalogue,
  findEventDoc,
  findKeyDoc,
} from "./events/catalogue.js";
export type { EventDoc, KeyDoc, KeyKind } from "./events/doc.js";
export { type FileSinkOptions, jsonLinesFileSink, textFileSink } from "./file-sinks.node.js";
export { formatJsonLine } from "./json-line.js";
export { type LogLevel, parseLogLevel } from "./level.js";
export { type LiveSinkOptions, liveSink } from "./live-sink.node.js";
export { type EmittedPayload, MetricLogger, type MetricLoggerOptions } from "./metric-logger.js";
export {
  formatCount,
  formatDuration,
  formatGeneral,
  formatPythonFloat,
} from "./number-text.js";
export { openSinks, type SinkSurroundings } from "./open-sinks.node.js";
export { type PlainSinkOptions, plainSink } from "./plain-sink.node.js";
export { RateMeter, type RateMeterOptions, type Rates, type StepCounts } from "./rate-meter.js";
export { type PageOptions, renderReport } from "./report/page.js";
export { readRun, readRuns } from "./report/read-run.node.js";
export { RunData } from "./report/run-data.js";
export {
  type AddedKeys,
  type EventArguments,
  type EventContext,
  type EventPayload,
  type Hook,
  type HookFunction,
  type HookObject,
  type HookOptions,
  hookSink,
  type Sink,
} from "./sink.js";
export type { SinkSpec } from "./sink-spec.js";
export { type TensorBoardSinkOptions, tensorBoardSink } from "./tensorboard-sink.node.js";
export {
  detectTerminal,
  type Environment,
  type OutputStream,
  type TerminalAbilities,
} from "./terminal.node.js";
export { formatTextLine } from "./text-line.js";
export { type TraceSinkOptions, traceSink } from "./trace-sink.node.js";
export { type WandbSdk, type WandbSinkOptions, wandbSink } from "./wandb-sink.node.js";
