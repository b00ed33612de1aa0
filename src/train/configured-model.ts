// From a configuration to the model that it names. The weights are somebody else's business.

import type { SpeedtronicConfig } from "../config/schema.js";
import type { LanguageModel, TrainableModel } from "../nn/contract.js";
import { addLora } from "../nn/lora.js";
import { modelOptionsFromConfig } from "../nn/models/options.js";
import { buildModel } from "../nn/models/registry.js";

/**
 * All weights are zeros still. Throws ConfigError for an unknown name, ModelError for sizes that do not fit, and for
 * adapters to layers that are not there.
 */
export function buildConfiguredModel(config: SpeedtronicConfig): TrainableModel {
  const { model: section, compat } = config;
  const model = buildModel({ name: section.name, ...modelOptionsFromConfig(section, compat) });
  addConfiguredLora(model, config);
  return model;
}

/** The adapters that `lora` asks for, if it does. */
export function addConfiguredLora(model: TrainableModel, { lora }: SpeedtronicConfig): void {
  const { rank, alpha, dropout, targets } = lora;
  if (rank !== null) addLora(model, { rank, alpha: alpha ?? rank, dropout, targets });
}

/** Whether text can be generated with it. */
export function isLanguageModel(model: TrainableModel): model is LanguageModel {
  return "vocabSize" in model && "blockSize" in model;
}
