// The two file sinks: JSONL metrics and text log lines, both over a buffered `LineFile`.
import { formatJsonLine } from "./json-line.js";
import type { LogLevel } from "./level.js";
import { LineFile, type LineFileOptions } from "./line-file.node.js";
import type { Sink } from "./sink.js";
import { formatTextLine, passesLevel } from "./text-line.js";

export interface FileSinkOptions extends Pick<LineFileOptions, "append" | "flushBytes" | "flushIntervalMs"> {
  everySteps?: number;
}

/** An unfinished line that we began ourselves. */
function isBrokenJson(line: string): boolean {
  const start = '{"event":"';
  if (!line.startsWith(start.slice(0, line.length))) return false;
  try {
    JSON.parse(line);
    return false;
  } catch {
    return true;
  }
}

function fileSink(
  name: string,
  file: LineFile,
  everySteps: number,
  line: (...args: Parameters<Sink["write"]>) => string,
): Sink {
  return {
    name,
    everySteps,
    write(event, payload, context) {
      file.append(line(event, payload, context));
      // Rare events go to disk at once, so that a log never ends before a checkpoint that it speaks of.
      if (event !== "train_step") file.flush();
    },
    flush: () => file.flush(),
    close: () => file.close(),
  };
}

/** Metrics as JSON lines; creates the folders of `path`. A run resumed after a crash repeats some steps: the later line counts. */
export function jsonLinesFileSink(path: string, options: FileSinkOptions = {}): Sink {
  const file = new LineFile(path, { ...options, isBroken: isBrokenJson });
  return fileSink(`metrics file ${path}`, file, options.everySteps ?? 1, formatJsonLine);
}

/** Log lines in Python's form; creates the folders of `path`. `level` hides messages below it, never metrics. */
export function textFileSink(path: string, options: FileSinkOptions & { level?: LogLevel } = {}): Sink {
  const level = options.level ?? "INFO";
  const sink = fileSink(
    `log file ${path}`,
    new LineFile(path, options),
    options.everySteps ?? 1,
    formatTextLine,
  );
  return { ...sink, accept: (event, payload) => passesLevel(event, payload, level) };
}
