// The public names of the data pipeline.

export { type BuildDataloaderOptions, buildDataloader, type DataPipeline } from "./build-dataloader.js";
export { ByteTokenizer, type ByteTokenizerOptions } from "./byte-tokenizer.js";
export { type CollateOptions, collateCausal, ignoredLabel } from "./collate.js";
export { createDataLoader, type DataLoaderOptions } from "./loader.js";
export type { DataCompat, DataOptions } from "./options.js";
export type { Draw, Sampler } from "./sampler.js";
export type { ShardWalk } from "./shard-place.js";
export { ShardSampler, type ShardSamplerOptions } from "./shard-sampler.js";
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
