// A fresh run that starts from weights of another one: opens whatever holds them and loads them under an explicit
// policy. Only the weights: no moments, no counters, no place in the data. A run that goes on is a resume instead.

import { stat } from "node:fs/promises";

import { describeDifference, explainDifferences } from "../checkpoint/compare.js";
import type { JsonObject } from "../checkpoint/content.js";
import { openModel } from "../checkpoint/load.js";
import {
  type LoadWeightsOptions,
  loadWeights,
  type WeightsSource,
  weightsOfReader,
} from "../checkpoint/load-weights.js";
import { type FitReport, formatReport } from "../checkpoint/names/index.js";
import { openSafetensorsFile, openShardedSafetensorsFiles } from "../formats/safetensors/index.node.js";
import type { TrainableModel } from "../nn/contract.js";
import type { ExtraState } from "../nn/extra-state.js";
import { CheckpointError, SpeedtronicError } from "../util/errors.js";

export interface InitialWeights extends LoadWeightsOptions {
  /** A checkpoint's, weights' or run's folder, a `.safetensors` file, or the index of a sharded set. */
  readonly path: string;
}

export interface LoadedWeights {
  readonly path: string;
  readonly report: FitReport;
  /** How the settings of the weights' own model differ, where they are known. */
  readonly differences: readonly string[];
}

export interface OpenWeights {
  readonly path: string;
  readonly source: WeightsSource;
  readonly fingerprint?: Readonly<Record<string, unknown>>;
  readonly modules?: JsonObject;
  close(): Promise<void>;
}

/**
 * Loads into the model's own arrays, over its starting values.
 * @throws CheckpointError `checkpoint.not_found`, `checkpoint.does_not_fit` and others of loading.
 */
export async function loadInitialWeights(
  model: TrainableModel,
  { path, ...options }: InitialWeights,
  fingerprint: Readonly<Record<string, unknown>>,
): Promise<LoadedWeights> {
  const opened = await openInitialWeights(path);
  try {
    const report = await loadWeights(model, opened.source, options);
    if (opened.modules) model.loadExtraState(opened.modules as Record<string, ExtraState>);
    const differences = explainDifferences(opened.fingerprint ?? fingerprint, fingerprint);
    return { path: opened.path, report, differences: differences.map(describeDifference) };
  } catch (error) {
    if (!(error instanceof CheckpointError)) throw error;
    throw new CheckpointError(`${opened.path}: ${error.message}`, {
      code: error.code,
      details: { path: opened.path, ...error.details },
      cause: error,
    });
  } finally {
    await opened.close();
  }
}

/** @throws CheckpointError `checkpoint.not_found` and others of opening. */
export async function openInitialWeights(path: string): Promise<OpenWeights> {
  const found = await stat(path).catch(() => undefined);
  if (found === undefined)
    throw new CheckpointError(`${path} does not exist; check the path of the initial weights`, {
      code: "checkpoint.not_found",
      details: { path },
    });
  if (found.isDirectory()) {
    const { content, info } = await openModel(path);
    const { model: source, modules, fingerprint, close } = content;
    return {
      path: info.path,
      source,
      fingerprint: fingerprint.model,
      ...(modules ? { modules } : {}),
      close,
    };
  }
  try {
    const reader = path.endsWith(".json")
      ? await openShardedSafetensorsFiles(path)
      : await openSafetensorsFile(path);
    return { path, source: weightsOfReader(reader), close: () => reader.close() };
  } catch (error) {
    if (!(error instanceof SpeedtronicError)) throw error;
    throw new CheckpointError(
      `${error.message}. Initial weights are safetensors files or folders of checkpoints`,
      {
        code: "checkpoint.unreadable",
        details: { path, ...error.details },
        cause: error,
      },
    );
  }
}

/** The report as plain data, for the event and for the checkpoints of the run. */
export function plainReport({ path, report, differences }: LoadedWeights) {
  const { loaded, missing, unexpected, mismatched, initial, renamed, unusedPatterns } = report;
  const kept = { missing, unexpected, mismatched: mismatched.map((m) => ({ ...m })), initial };
  const names = { renamed: renamed.map((r) => ({ ...r })), unused_patterns: unusedPatterns };
  return { path, loaded: loaded.length, ...kept, ...names, differences, report: formatReport(report) };
}
