// Public surface of modules and models: `speedtronic/nn`.

export { type ChainStep, ModuleDict, ModuleList, Sequential } from "./containers.js";
export {
  checkInputNames,
  type IncrementalModel,
  type IncrementalOutput,
  isIncremental,
  type KeyValue,
  type LanguageModel,
  type ModelInputs,
  type ModelOutput,
  type TrainableModel,
} from "./contract.js";
export {
  type GenerateOptions,
  Generator,
  type GeneratorOptions,
  generate,
} from "./generate/generator.js";
export { type SamplingOptions, sampleToken } from "./generate/sample.js";
export { type GenerateTextOptions, generateText, type TextCodec } from "./generate/text.js";
export { windowStart } from "./generate/window.js";
export { createParameter, initialize } from "./init/initialize.js";
export * as init from "./init/initializers.js";
export {
  type AttentionContext,
  type CacheContext,
  CausalSelfAttention,
  type CausalSelfAttentionOptions,
} from "./layers/attention.js";
export { Dropout } from "./layers/dropout.js";
export { Embedding } from "./layers/embedding.js";
export { Linear, type LinearOptions } from "./layers/linear.js";
export { GatedMlp, type GatedMlpOptions } from "./layers/mlp.js";
export { LayerNorm, type NormOptions, RMSNorm } from "./layers/norm.js";
export { type RotaryRows, RotaryTable } from "./layers/rotary.js";
export { crossEntropy, meanLoss, type SummedLoss } from "./loss.js";
export {
  defaultModelOptions,
  type ModelOptions,
  type ModelSection,
  mlpWidthOf,
  modelOptionsFromConfig,
  resolveModelOptions,
} from "./models/options.js";
export { ReferenceTransformer } from "./models/reference-transformer.js";
export { buildModel, type ModelFactory, modelNames, registerModel } from "./models/registry.js";
export { Buffer, Module } from "./module.js";
export type { LoadOptions, LoadReport, Mismatch } from "./state-dict.js";
