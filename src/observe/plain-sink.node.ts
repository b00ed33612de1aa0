// The display for output that is not a terminal (a pipe, a file): one plain line per event.
import type { LogLevel } from "./level.js";
import { Narrator } from "./narrator.js";
import type { Sink } from "./sink.js";
import { GuardedStream, type OutputStream } from "./terminal.node.js";
import { passesLevel } from "./text-line.js";

export interface PlainSinkOptions {
  stream: OutputStream;
  everySteps?: number;
  level?: LogLevel;
}

/** One line per event for output that is not a terminal. */
export function plainSink(options: PlainSinkOptions): Sink {
  const output = new GuardedStream(options.stream);
  const narrator = new Narrator();
  return {
    name: "console",
    everySteps: options.everySteps ?? 1,
    accept: (event, payload) => passesLevel(event, payload, options.level ?? "INFO"),
    write(event, payload) {
      const lines = narrator.describe(event, payload);
      if (lines.length > 0) output.write(`${lines.join("\n")}\n`);
    },
    close: () => output.close(),
  };
}
