// From the section `logging` to the options of a logger: the one place where its keys get their meaning.

import { resolve } from "node:path";
import type { SpeedtronicConfig } from "../config/schema.js";
import { asSinkEntry, defaultSinkPaths, type SinkEntry } from "../config/sections/sinks.js";
import type { LoggerOptions } from "../observe/build-logger.node.js";
import { parseLogLevel } from "../observe/level.js";
import { openSinks } from "../observe/open-sinks.node.js";
import type { SinkSpec } from "../observe/sink-spec.js";

interface Given {
  readonly runId: string;
  readonly hooks?: LoggerOptions["hooks"] | undefined;
  readonly stream?: LoggerOptions["stream"] | undefined;
  readonly profile?: true | string | undefined;
  /** Not a training run: there are no metrics to keep unless somebody asks. */
  readonly isService?: boolean;
}

/**
 * The options, with the sinks of `logging.sinks` opened.
 * @throws ConfigError when a sink's package or module is missing
 */
export async function loggerOptions(config: SpeedtronicConfig, given: Given): Promise<LoggerOptions> {
  const { file, json_file, every_steps, sinks } = config.logging;
  const level = parseLogLevel(config.logging.level) ?? "INFO";
  const { runId, hooks = [], stream = null, profile, isService = false } = given;
  const specs = [...sinkSpecs(config), ...profileSpecs(config, profile)];
  return {
    runId,
    level,
    file,
    jsonFile: json_file,
    everySteps: every_steps,
    // The list has the console in it, or the run has none.
    stream: sinks === null ? stream : null,
    sinks: await openSinks(isService && sinks === null ? [] : specs, { level, stream }),
    hooks,
  };
}

/** What `logging.sinks` asks for, in full. */
function sinkSpecs(config: SpeedtronicConfig): SinkSpec[] {
  const { sinks, json_file } = config.logging;
  if (sinks !== null) return sinks.map((item) => sinkSpec(asSinkEntry(item), config));
  return config.checkpoint.enabled && json_file === null ? [sinkSpec({ type: "jsonl" }, config)] : [];
}

function profileSpecs(config: SpeedtronicConfig, profile: Given["profile"]): SinkSpec[] {
  if (profile === undefined) return [];
  if (profile !== true) return [{ type: "trace", path: resolve(profile) }];
  const has = sinkSpecs(config).some(({ type }) => type === "trace");
  return has ? [] : [sinkSpec({ type: "trace" }, config)];
}

function sinkSpec(entry: SinkEntry, { run, logging }: SpeedtronicConfig): SinkSpec {
  const { type, every_steps: everySteps = logging.every_steps, level } = entry;
  const path = resolve(run.output_dir, entry.path ?? defaultSinkPaths[type] ?? "");
  const shown = { everySteps, ...(level === undefined ? {} : { level }) };
  switch (type) {
    case "console":
      return { type, ...shown };
    case "text":
      return { type, path, ...shown };
    case "jsonl":
    case "tensorboard":
      return { type, path, everySteps };
    case "trace":
      return { type, path };
    case "wandb":
      return {
        type,
        project: entry.project ?? run.name,
        runName: run.name,
        everySteps,
        ...(entry.entity === undefined ? {} : { entity: entry.entity }),
      };
    case "callback":
      return {
        type,
        module: entry.module ?? "",
        // Like a hook in code: every step, unless its own cadence says otherwise.
        everySteps: entry.every_steps ?? 1,
        ...(entry.export === undefined ? {} : { exportName: entry.export }),
      };
  }
}
