// The console as a sink: a live status line on a terminal, plain lines elsewhere.

import type { LogLevel } from "./level.js";
import { liveSink } from "./live-sink.node.js";
import { plainSink } from "./plain-sink.node.js";
import type { Sink } from "./sink.js";
import { detectTerminal, type Environment, type OutputStream } from "./terminal.node.js";

export interface ConsoleOptions {
  readonly stream: OutputStream;
  /** Hides messages below it. */
  readonly level?: LogLevel;
  /** Cadence of plain lines; the status line shows every step. */
  readonly everySteps?: number;
  /** Overrides `stream.isTTY`: a live status line if true, plain lines if false. */
  readonly isTTY?: boolean;
  /** Environment for NO_COLOR, TERM and the locale; default `process.env`. */
  readonly env?: Environment;
}

export function consoleSink({ stream, level = "INFO", everySteps = 1, isTTY, env }: ConsoleOptions): Sink {
  const abilities = detectTerminal(stream, env ?? process.env, isTTY);
  if (abilities.isLive) return liveSink({ stream, abilities, level });
  return plainSink({ stream, level, everySteps });
}
