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
export { type PlainSinkOptions, plainSink } from "./plain-sink.node.js";
export { RateMeter, type RateMeterOptions, type Rates, type StepCounts } from "./rate-meter.js";
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
export {
  detectTerminal,
  type Environment,
  type OutputStream,
  type TerminalAbilities,
} from "./terminal.node.js";
export { formatTextLine } from "./text-line.js";
