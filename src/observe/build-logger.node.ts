// The logger a run uses, put together from plain options: console (live or plain), log file, metrics file, hooks.

import { consoleSink } from "./console-sink.node.js";
import { jsonLinesFileSink, textFileSink } from "./file-sinks.node.js";
import type { LogLevel } from "./level.js";
import { MetricLogger } from "./metric-logger.js";
import type { Hook, Sink } from "./sink.js";
import type { Environment, OutputStream } from "./terminal.node.js";

export interface LoggerOptions {
  runId: string;
  /** Hides messages below it on console and in the log file. Metrics, JSONL and hooks are not affected. */
  level?: LogLevel;
  /** Log file in Python's line form, in addition to the console. */
  file?: string | null;
  /** JSONL metrics file. */
  jsonFile?: string | null;
  /** Cadence of `train_step` in plain output and files; the first and last step always appear. Default 1. */
  everySteps?: number;
  /** Cadence of the JSONL file alone; default `everySteps`. */
  jsonEverySteps?: number;
  /** Console output; without it nothing is printed. */
  stream?: OutputStream | null;
  /** Overrides `stream.isTTY`: a live status line if true, plain lines if false. */
  isTTY?: boolean;
  /** Further sinks, opened already; they come after console and files. */
  sinks?: readonly Sink[];
  hooks?: readonly Hook[];
  /** Keep what files already hold (default: lines carry the run id), or start them anew. */
  append?: boolean;
  /** Environment for NO_COLOR, TERM and the locale; default `process.env`. */
  env?: Environment;
}

/** Opens nothing yet: files are created with the first event, and one that cannot be is a warning. */
export function buildLogger(options: LoggerOptions): MetricLogger {
  const everySteps = options.everySteps ?? 1;
  const append = options.append ?? true;
  const sinks: Sink[] = [];
  const { stream } = options;
  if (stream) sinks.push(consoleSink({ ...options, stream }));
  if (options.file)
    sinks.push(textFileSink(options.file, { append, everySteps, level: options.level ?? "INFO" }));
  if (options.jsonFile) {
    sinks.push(
      jsonLinesFileSink(options.jsonFile, { append, everySteps: options.jsonEverySteps ?? everySteps }),
    );
  }
  sinks.push(...(options.sinks ?? []));
  return new MetricLogger({ runId: options.runId, sinks, hooks: options.hooks ?? [] });
}
