// From a checkpoint on disk to a model with its weights, for programs that use a trained model without going on
// training it. Which model it was, the checkpoint's own configuration says. Opens no data, starts no engine.

import type { CheckpointInfo } from "../checkpoint/folder-reader.js";
import { openModel } from "../checkpoint/load.js";
import { loadWeights } from "../checkpoint/load-weights.js";
import { resolveConfig } from "../config/resolve.js";
import type { ConfigInput, SpeedtronicConfig } from "../config/schema.js";
import type { TrainableModel } from "../nn/contract.js";
import { CheckpointError, ModelError, SpeedtronicError } from "../util/errors.js";
import { adapterFingerprint, baseNames, loadAdapterBase } from "./adapters.node.js";
import { buildConfiguredModel } from "./configured-model.js";
import { loadPlugins } from "./plugins/load.node.js";

export interface TrainedModel {
  /** With the checkpoint's weights. */
  readonly model: TrainableModel;
  /** The configuration that it was trained with. */
  readonly config: SpeedtronicConfig;
  readonly checkpoint: CheckpointInfo;
  /** Newer checkpoints that were passed over because they are damaged. */
  readonly skipped: readonly { readonly path: string; readonly reason: string }[];
}

export interface LoadTrainedOptions {
  /**
   * Modules that register its model, as in a configuration. Those that the checkpoint names are not loaded by
   * themselves: a checkpoint is data, and must not decide what code runs.
   */
  readonly plugins?: readonly string[];
  /** Where the weights under its adapters are now. Default: where its configuration says. */
  readonly base?: string;
}

/**
 * The model in `path`: a checkpoint's folder, or the newest good one of a run's folder. Sizes and hashes are
 * verified, and every tensor must fit.
 *
 * @throws CheckpointError where there is no intact checkpoint or its configuration is not understood; ModelError
 * for a model that is not registered in this process, or whose tensors do not fit.
 */
export async function loadTrainedModel(
  path: string,
  { plugins = [], base }: LoadTrainedOptions = {},
): Promise<TrainedModel> {
  await loadPlugins(plugins);
  const { content, info, skipped } = await openModel(path);
  try {
    const config = savedConfig(content.config, info);
    const model = savedModel(config, info);
    try {
      if (config.lora.rank !== null) await loadBase(model, config, base, content.fingerprint.model, info);
      const allowMissing = config.lora.rank === null ? [] : [...baseNames(model)];
      await loadWeights(model, content.model, { allowMissing });
      model.loadExtraState((content.modules ?? {}) as Parameters<TrainableModel["loadExtraState"]>[0]);
    } catch (error) {
      throw isMisfit(error) ? misfit(error, config, info) : error;
    }
    return { model, config, checkpoint: info, skipped };
  } finally {
    await content.close();
  }
}

/** A checkpoint of adapters holds nothing else; what they were trained on must still be there, and the same. */
async function loadBase(
  model: TrainableModel,
  config: SpeedtronicConfig,
  given: string | undefined,
  fingerprint: Readonly<Record<string, unknown>>,
  info: CheckpointInfo,
): Promise<void> {
  const base = given ?? config.lora.base;
  if (base === null)
    throw new CheckpointError(
      `${info.path}: it holds adapters to weights that a program handed over; name where they are (--base, or the option base)`,
      { code: "lora.no_base", details: { path: info.path } },
    );
  await loadAdapterBase(model, base, config);
  const now = adapterFingerprint(model, config.lora).base_sha256;
  const { base_sha256: saved = now } = (fingerprint.lora ?? {}) as { base_sha256?: unknown };
  if (saved !== now)
    throw new CheckpointError(
      `${info.path}: its adapters were trained on other weights than those in ${base}; name the right ones (--base, or the option base)`,
      { code: "lora.other_base", details: { path: info.path, base, saved, now } },
    );
}

function savedConfig(saved: Readonly<Record<string, unknown>>, info: CheckpointInfo): SpeedtronicConfig {
  try {
    return resolveConfig(saved as ConfigInput);
  } catch (error) {
    if (!(error instanceof SpeedtronicError)) throw error;
    throw new CheckpointError(
      `${info.path}: its configuration is not understood, so the model cannot be built; was it written by another ` +
        `version? ${error.message}`,
      { code: "checkpoint.config", details: { path: info.path, ...error.details }, cause: error },
    );
  }
}

function savedModel(config: SpeedtronicConfig, info: CheckpointInfo): TrainableModel {
  try {
    return buildConfiguredModel(config);
  } catch (error) {
    if (!(error instanceof SpeedtronicError)) throw error;
    const hint = error.code === "model.unknown_name" ? unknownModelHint(config) : "";
    throw new ModelError(`${info.path}: its model cannot be built: ${error.message}${hint}`, {
      code: error.code,
      details: { path: info.path, ...error.details },
      cause: error,
    });
  }
}

function unknownModelHint({ plugins }: SpeedtronicConfig): string {
  if (plugins.length === 0)
    return ". A model of a program of your own can only be loaded by a program that registers it";
  const list = plugins.map((plugin) => JSON.stringify(plugin)).join(", ");
  return `. It was trained with the plugins ${list}: name them, if you trust them (speedtronic generate --plugin, or the option plugins)`;
}

function isMisfit(error: unknown): error is SpeedtronicError {
  const codes = ["checkpoint.does_not_fit", "checkpoint.tied_values_differ", "model.extra_state"];
  return error instanceof SpeedtronicError && codes.includes(error.code);
}

/** A run may train a model of its own while its configuration names another. */
function misfit(error: SpeedtronicError, config: SpeedtronicConfig, info: CheckpointInfo): ModelError {
  return new ModelError(
    `${info.path}: its weights are not those of the model "${config.model.name}" that its configuration describes: ` +
      error.message,
    { code: error.code, details: { path: info.path, ...error.details }, cause: error },
  );
}
