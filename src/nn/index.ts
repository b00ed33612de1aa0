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
export type { ExtraState } from "./extra-state.js";
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
export { AdaptableLayer, type AdapterOptions, type AdapterShape, LowRankAdapter } from "./layers/adapter.js";
export { CausalSelfAttention, type CausalSelfAttentionOptions } from "./layers/attention.js";
export { BatchNorm, type BatchNormOptions } from "./layers/batch-norm.js";
export {
  AvgPool2d,
  Conv1d,
  type Conv1dOptions,
  Conv2d,
  type Conv2dOptions,
  MaxPool2d,
} from "./layers/convolution.js";
export { Dropout } from "./layers/dropout.js";
export { Embedding } from "./layers/embedding.js";
export {
  type AttentionContext,
  type AttentionResult,
  type CacheContext,
  GroupedAttention,
  type HeadLayout,
} from "./layers/grouped-attention.js";
export { Linear, type LinearOptions } from "./layers/linear.js";
export { GatedMlp, type GatedMlpOptions } from "./layers/mlp.js";
export { LayerNorm, type NormOptions, RMSNorm } from "./layers/norm.js";
export { Gru, Lstm, type RecurrentOptions } from "./layers/recurrent.js";
export { type RotaryRows, RotaryTable } from "./layers/rotary.js";
export type { RotaryScaling } from "./layers/rotary-scaling.js";
export { addLora, initializeLora, type LoraOptions, loraParameterNames, mergeLora } from "./lora.js";
export { crossEntropy, meanLoss, type SummedLoss } from "./loss.js";
export {
  type Attend,
  CausalDecoder,
  type DecoderBlock,
  type PositionRows,
  preNormBlock,
} from "./models/causal-decoder.js";
export {
  choiceRule,
  type ExtraRule,
  type ExtraRules,
  type ExtraSchema,
  flagRule,
  positiveRule,
  readExtra,
  sizeOrNullRule,
} from "./models/extra.js";
export { Gpt2, type Gpt2Activation, type Gpt2Extra } from "./models/gpt2.js";
export { Llama } from "./models/llama.js";
export type { LlamaExtra, RopeScalingSection } from "./models/llama-extra.js";
export {
  defaultModelOptions,
  type ModelOptions,
  type ModelSection,
  mlpWidthOf,
  modelOptionsFromConfig,
  resolveModelOptions,
} from "./models/options.js";
export { ReferenceTransformer } from "./models/reference-transformer.js";
export {
  buildModel,
  checkModelExtra,
  type ModelFactory,
  modelNames,
  type RegisterModelOptions,
  registerModel,
} from "./models/registry.js";
export { Buffer, type BufferMerge, Module } from "./module.js";
export type { LoadOptions, LoadReport, Mismatch, StateEntry } from "./state-dict.js";
