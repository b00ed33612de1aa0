// Events in Weights & Biases, through the optional package @wandb/sdk. The package is looked for when the run starts;
// the network only with the first event, behind the sink's own queue, so that it never holds up training.
// The npm package called `wandb` is something else and is never loaded.

import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { ConfigError } from "../util/errors.js";
import { scalarsOf, stepOf } from "./scalars.js";
import type { Sink } from "./sink.js";

/** What of the package is used. */
export interface WandbSdk {
  init(options: Readonly<Record<string, unknown>>): Promise<WandbRun>;
}

interface WandbRun {
  log(data: Record<string, unknown>, step?: number): void;
  finish(code?: number): Promise<void>;
}

export interface WandbSinkOptions {
  readonly project: string;
  readonly entity?: string;
  /** Name of the run there; default: its id. */
  readonly runName?: string;
  readonly everySteps?: number;
  /** Instead of loading @wandb/sdk. */
  readonly sdk?: WandbSdk;
}

const packageName = "@wandb/sdk";

/** @throws ConfigError `observe.wandb_missing` when the package is not installed */
export async function wandbSink(options: WandbSinkOptions): Promise<Sink> {
  const sdk = options.sdk ?? (await loadSdk());
  let run: Promise<WandbRun> | undefined;
  const facts: Record<string, unknown> = {};

  const start = (runId: string): Promise<WandbRun> => {
    const { project, entity, runName } = options;
    return keepSignals(() =>
      sdk.init({
        project,
        ...(entity === undefined ? {} : { entity }),
        id: runId,
        name: runName ?? runId,
        resume: "allow",
        config: facts,
      }),
    );
  };

  return {
    name: `Weights & Biases project ${options.project}`,
    everySteps: options.everySteps ?? 1,
    async write(event, payload, { runId }) {
      if (event === "run_info") Object.assign(facts, payload.config as object);
      if (event === "train_start") facts.train_start = payload;
      const step = stepOf(event, payload);
      const scalars = scalarsOf(event, payload);
      if (step === undefined || (scalars.size === 0 && event !== "sample")) return;
      run ??= start(runId);
      const data: Record<string, unknown> = Object.fromEntries(scalars);
      if (event === "sample") data.sample = `${payload.prompt ?? ""}${payload.text ?? ""}`;
      (await run).log(data, step);
    },
    async close() {
      await (await run)?.finish();
    },
  };
}

async function loadSdk(): Promise<WandbSdk> {
  const url = locate();
  if (url === undefined)
    throw new ConfigError(
      `logging.sinks: a sink of type "wandb" needs the package ${packageName}, which is not installed: ` +
        `npm install ${packageName} (the npm package named wandb is something else), or remove the sink`,
      { code: "observe.wandb_missing", details: { package: packageName } },
    );
  const module = (await import(url)) as { default?: WandbSdk | { default?: WandbSdk } };
  const outer = module.default;
  const sdk = outer && "init" in outer ? outer : outer?.default;
  if (sdk === undefined)
    throw new ConfigError(`${packageName} at ${url} has no init; version 0.5.1 is known to work`, {
      code: "observe.wandb_unknown",
    });
  return sdk;
}

/** Seen from this package, or from the working directory. */
function locate(): string | undefined {
  for (const base of [import.meta.url, pathToFileURL(join(process.cwd(), "importer.js")).href]) {
    try {
      return pathToFileURL(createRequire(base).resolve(packageName)).href;
    } catch {
      // Not installed there.
    }
  }
  return undefined;
}

/** The package ends the process on signals, which would take a run down before it has saved. */
async function keepSignals<T>(work: () => Promise<T>): Promise<T> {
  const signals = ["SIGINT", "SIGTERM"] as const;
  const before = new Map(signals.map((signal) => [signal, new Set(process.listeners(signal))]));
  try {
    return await work();
  } finally {
    for (const signal of signals)
      for (const listener of process.listeners(signal))
        if (!before.get(signal)!.has(listener)) process.removeListener(signal, listener);
  }
}
