// Adapters and the weights under them as one model on disk, which is an ordinary one from then on.

import type { CheckpointInfo } from "../checkpoint/folder-reader.js";
import { saveWeightsFolder } from "../checkpoint/weights-folder.js";
import { resolveConfig } from "../config/resolve.js";
import { toPlainConfig } from "../config/serialize.js";
import { mergeLora } from "../nn/lora.js";
import { ConfigError } from "../util/errors.js";
import { currentEnvironment, defaultThreads } from "./environment.node.js";
import { type LoadTrainedOptions, loadTrainedModel, type TrainedModel } from "./load-model.node.js";

export interface MergeAdaptersOptions extends LoadTrainedOptions {
  /** Replace a folder of this library that is there already. Default false. */
  readonly overwrite?: boolean;
}

export interface MergedAdapters extends Pick<TrainedModel, "skipped"> {
  /** How many adapters there were. */
  readonly merged: number;
  readonly sizeBytes: number;
  readonly info: CheckpointInfo;
}

/**
 * Writes the model of the checkpoint or run `path` without adapters into the new folder `output`.
 * @throws ConfigError `lora.no_adapters`; CheckpointError and ModelError as for loading and saving
 */
export async function mergeAdapters(
  path: string,
  output: string,
  { overwrite = false, ...options }: MergeAdaptersOptions = {},
): Promise<MergedAdapters> {
  const { model, config, checkpoint, skipped } = await loadTrainedModel(path, options);
  const merged = mergeLora(model);
  if (merged === 0)
    throw new ConfigError(`${checkpoint.path} has no adapters: there is nothing to merge`, {
      code: "lora.no_adapters",
      details: { path: checkpoint.path },
    });
  const plain = toPlainConfig({ ...config, lora: resolveConfig({}).lora });
  const modules = model.extraState();
  const info = await saveWeightsFolder(
    output,
    {
      model: model.stateDict(),
      config: plain,
      environment: currentEnvironment(defaultThreads(), undefined),
      fingerprint: { model: { ...config.model } as Record<string, unknown> },
      ...(Object.keys(modules).length > 0 && { modules }),
    },
    { overwrite },
  );
  return { merged, sizeBytes: info.sizeBytes, info, skipped };
}
