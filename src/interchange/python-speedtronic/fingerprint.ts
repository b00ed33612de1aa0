// The fingerprint of a checkpoint that no run of this library has written: what a run of its configuration would say,
// as far as it is known.

import type { Fingerprint } from "../../checkpoint/content.js";
import { configFingerprint } from "../../config/fingerprint.js";
import type { SpeedtronicConfig } from "../../config/index.js";
import { ByteTokenizer } from "../../data/byte-tokenizer.js";
import type { TrainableModel } from "../../nn/contract.js";
import { modelOptionsFromConfig } from "../../nn/models/options.js";
import { buildModel, modelNames } from "../../nn/models/registry.js";

/** Without the model's sizes where no model of that name is registered, and without data, which are not compared. */
export function fingerprintOf(config: SpeedtronicConfig): Fingerprint {
  const { vocabSize } = new ByteTokenizer({ vocabSize: config.model.vocab_size });
  return configFingerprint(config, {
    model: builtModel(config),
    tokenizer: { kind: "byte", vocabSize },
    data: null,
  });
}

function builtModel({ model, compat }: SpeedtronicConfig): TrainableModel | null {
  if (!modelNames().includes(model.name)) return null;
  return buildModel({ name: model.name, ...modelOptionsFromConfig(model, compat) });
}
