// From a configuration to the model that it names. The weights are somebody else's business.

import type { SpeedtronicConfig } from "../config/schema.js";
import type { LanguageModel, TrainableModel } from "../nn/contract.js";
import { modelOptionsFromConfig } from "../nn/models/options.js";
import { buildModel } from "../nn/models/registry.js";

/** All weights are zeros still. Throws ConfigError for an unknown name, ModelError for sizes that do not fit. */
export function buildConfiguredModel({ model, compat }: SpeedtronicConfig): TrainableModel {
  return buildModel({ name: model.name, ...modelOptionsFromConfig(model, compat) });
}

/** Whether text can be generated with it. */
export function isLanguageModel(model: TrainableModel): model is LanguageModel {
  return "vocabSize" in model && "blockSize" in model;
}
