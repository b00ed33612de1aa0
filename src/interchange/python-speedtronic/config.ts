// The configuration inside a Python checkpoint as one of this library: the same keys, read by the same checks, and
// the switches of `compat` set so that the run goes on by the rules it was started with.

import { type ConfigInput, resolveConfig, type SpeedtronicConfig } from "../../config/index.js";
import type { TorchValue } from "../../formats/torch/index.js";
import { SpeedtronicError } from "../../util/errors.js";
import { refuse } from "./failure.js";
import { toPlainObject } from "./plain.js";

/** Which rules the configuration asks for from here on. */
export type CompatChoice = NonNullable<ConfigInput["compat"]>;

/**
 * @throws CheckpointError `python_checkpoint.config` when there is none, or it is not understood; `details.problems`
 * names every key then
 */
export function importConfig(
  value: TorchValue,
  compat: CompatChoice,
  file: string | undefined,
): SpeedtronicConfig {
  if (!(value instanceof Map))
    throw refuse(
      "config",
      file,
      "the checkpoint has no configuration, so the model cannot be told; give one",
    );
  try {
    return resolveConfig({ ...toPlainObject(value), compat } as ConfigInput);
  } catch (error) {
    if (!(error instanceof SpeedtronicError)) throw error;
    throw refuse("config", file, `its configuration is not understood: ${error.message}`, error.details);
  }
}
