// An imported model as a weights-only folder of this library, whose configuration says how to build it: what
// generation and further training start from.

import type { Environment } from "../../checkpoint/content.js";
import type { CheckpointInfo } from "../../checkpoint/folder-reader.js";
import { saveWeightsFolder } from "../../checkpoint/weights-folder.js";
import { resolveConfig } from "../../config/resolve.js";
import type { ConfigInput } from "../../config/schema.js";
import { toPlainConfig } from "../../config/serialize.js";
import type { ImportedModel } from "./import.js";

export interface SaveImportedOptions {
  /** What the folder's manifest says it was made on. */
  readonly environment: Environment;
  /** Replace a folder of this library that is there already. Default false. */
  readonly overwrite?: boolean;
}

/** @throws CheckpointError as for every weights-only folder; nothing stays half-written */
export async function saveImportedModel(
  { model, config }: Pick<ImportedModel, "model" | "config">,
  path: string,
  { environment, overwrite = false }: SaveImportedOptions,
): Promise<CheckpointInfo> {
  const full = resolveConfig(config as ConfigInput);
  const content = {
    model: model.stateDict(),
    config: toPlainConfig(full),
    environment,
    fingerprint: { model: { ...config.model } },
  };
  return saveWeightsFolder(path, content, { overwrite });
}
