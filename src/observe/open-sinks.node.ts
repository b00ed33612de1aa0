// From specifications to sinks. What can be known at once is refused at once (a package or a module that is missing);
// files and networks come with the first event, and their failures are the sink's own.

import { ConfigError } from "../util/errors.js";
import { importModule, locateModule } from "../util/user-module.node.js";
import { type ConsoleOptions, consoleSink } from "./console-sink.node.js";
import { jsonLinesFileSink, textFileSink } from "./file-sinks.node.js";
import { type Hook, hookSink, type Sink } from "./sink.js";
import type { SinkSpec } from "./sink-spec.js";
import { tensorBoardSink } from "./tensorboard-sink.node.js";
import { traceSink } from "./trace-sink.node.js";
import { wandbSink } from "./wandb-sink.node.js";

/** What sinks share. `stream` is where the console is; without one a console sink is left out. */
export interface SinkSurroundings extends Omit<ConsoleOptions, "stream" | "everySteps"> {
  readonly stream?: ConsoleOptions["stream"] | null;
}

/** @throws ConfigError when a package or a module is missing */
export async function openSinks(
  specs: readonly SinkSpec[],
  surroundings: SinkSurroundings = {},
): Promise<Sink[]> {
  const sinks: Sink[] = [];
  for (const spec of specs) sinks.push(...(await openSink(spec, surroundings)));
  return sinks;
}

async function openSink(spec: SinkSpec, { stream, ...shared }: SinkSurroundings): Promise<Sink[]> {
  switch (spec.type) {
    case "console": {
      const { type: _, ...own } = spec;
      return stream ? [consoleSink({ ...shared, ...own, stream })] : [];
    }
    case "text":
      return [textFileSink(spec.path, { ...shared, ...spec })];
    case "jsonl":
      return [jsonLinesFileSink(spec.path, spec)];
    case "tensorboard":
      return [tensorBoardSink(spec.path, spec)];
    case "trace":
      return [traceSink(spec.path)];
    case "wandb":
      return [await wandbSink(spec)];
    case "callback":
      return [hookSink(await loadHook(spec), { ...spec, name: `callback ${spec.module}` })];
  }
}

async function loadHook({
  module: specifier,
  exportName,
}: Extract<SinkSpec, { type: "callback" }>): Promise<Hook> {
  const folder = process.cwd();
  const exports = await importModule(await locateModule(specifier, folder), specifier);
  const names = exportName === undefined ? ["onEvent", "default"] : [exportName];
  const found = names.map((name) => exports[name]).find((value) => value !== undefined);
  if (isHook(found)) return found;
  const wanted = names.map((name) => `"${name}"`).join(" or ");
  throw new ConfigError(
    `logging.sinks: ${specifier} has no export ${wanted} that is a function or an object with a method onEvent; ` +
      `it exports ${Object.keys(exports).join(", ") || "nothing"}`,
    { code: "observe.no_hook", details: { module: specifier, names } },
  );
}

function isHook(value: unknown): value is Hook {
  if (typeof value === "function") return true;
  return (
    typeof value === "object" &&
    value !== null &&
    typeof (value as { onEvent?: unknown }).onEvent === "function"
  );
}
