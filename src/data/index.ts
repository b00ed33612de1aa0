// The public names of the data pipeline.

export { type AnyBatch, type AnyLoader, namedBatch } from "./batch-forms.js";
export { type BuildDataloaderOptions, buildDataloader, type DataPipeline } from "./build-dataloader.js";
export { ByteTokenizer, type ByteTokenizerOptions } from "./byte-tokenizer.js";
export { type CollateOptions, collateCausal, ignoredLabel } from "./collate.js";
export {
  type CollateRule,
  type CollateRules,
  collateRecords,
  type FieldValue,
  type RecordSample,
} from "./collate-records.js";
export type { DataNotice } from "./configured-sources.js";
export type { DocumentSource } from "./documents.js";
export { createDataLoader, type DataLoaderOptions } from "./loader.js";
export type { DataCompat, DataOptions, DataSourceOptions } from "./options.js";
export {
  type DatasetFactory,
  type DatasetRequest,
  registerDataset,
  registerTokenizer,
  type TokenizerFactory,
} from "./registry.js";
export type { Draw, Sampler } from "./sampler.js";
export type { ShardWalk } from "./shard-place.js";
export { ShardSampler, type ShardSamplerOptions } from "./shard-sampler.js";
export type { OpenFile, RemoteFiles, SourceFile } from "./sources/source-file.js";
export { SyntheticDataset, type SyntheticOptions } from "./synthetic.js";
export type {
  Batch,
  CollatedBatch,
  DataLoader,
  DataPosition,
  Dataset,
  LoadedBatch,
  Sample,
  ShardPlace,
  ShardRef,
  TextDecoderStream,
  Tokenizer,
} from "./types.js";
export { type ValidationOptions, validationBatches } from "./validation-batches.js";
