// The nouns of the data pipeline: samples, datasets, batches, loaders and tokenizers, as interfaces that a
// user's own classes can implement. No behaviour lives here.

import type { TensorData } from "../tensor/dtype.js";

/** One causal language-model sample: `labels[t]` is the id that follows `inputIds[t]`. Equal lengths. */
export interface Sample {
  readonly inputIds: Int32Array;
  /** −100 marks a position without a target. */
  readonly labels: Int32Array;
}

/**
 * Named tensors as the model takes them: `input_ids` int32 [B,T], `labels` int32 [B,T] and, only where
 * something is padded, `attention_mask` bool [B,T] (1 on real positions).
 */
export type Batch = Readonly<Record<string, TensorData>>;

/** Random access to samples. `get(i)` must give the same sample whenever it is asked for `i`. */
export interface Dataset<S = Sample> {
  readonly length: number;
  get(index: number): S | Promise<S>;
  /** A fingerprint that changes when the samples do: kind, size, hash. JSON values, no paths, no secrets. */
  describe(): Record<string, unknown>;
  /** Releases files. Called by whoever opened the dataset. */
  close?(): Promise<void>;
}

/** A place in the endless stream of batches. Plain JSON. */
export interface DataPosition {
  readonly epoch: number;
  /** Samples consumed within the epoch; of a corpus in shards, within the shard. */
  readonly position: number;
  /** Of a corpus in shards only: all that decides what comes next. */
  readonly shards?: ShardPlace;
}

/** One pass over a shard: epoch and shard. */
export type ShardRef = readonly [epoch: number, shard: number];

/** Where a node stands among the shards of a corpus that it trains on with others. */
export interface ShardPlace {
  /** Whose walk it is. */
  readonly node: string;
  /** Shards that the corpus is cut into. */
  readonly count: number;
  /** What the node was given to train on. */
  readonly queue: readonly ShardRef[];
  /** What it trains once more when the queue is done and nobody has given it more. After these it walks. */
  readonly spare: readonly ShardRef[];
  /** Entries of queue and spare that are done. */
  readonly at: number;
  /** Shards of the walk that are done. */
  readonly walk: number;
  /** Samples of the present shard that are done. */
  readonly offset: number;
}

/** A batch with its counts; `samples` and `tokens` leave padding out. */
export interface CollatedBatch {
  batch: Batch;
  samples: number;
  /** Input tokens that are not padding. */
  tokens: number;
  /** Labels other than −100: the weight of this batch in a token-weighted loss. */
  targetTokens: number;
  /** Fields that are no tensors, one value per sample: for hooks and people, not for the model. */
  lists?: Readonly<Record<string, readonly unknown[]>>;
}

export interface LoadedBatch extends CollatedBatch {
  epoch: number;
}

/** An endless stream of batches that can say where it is and be put back there. */
export interface DataLoader {
  /** Rejects with a DataError for samples that cannot be read; asking again retries the same batch. */
  next(): Promise<LoadedBatch>;
  /** The place after the last batch that `next()` delivered; what was only prefetched does not count. */
  position(): DataPosition;
  /** Continues from `position`. Not allowed while a `next()` is pending. */
  seek(position: DataPosition): void;
  readonly batchesPerEpoch: number;
  close(): Promise<void>;
}

/** Turns ids back into text while they arrive. */
export interface TextDecoderStream {
  /** The text that is certain after `id`; empty while a character is incomplete. */
  push(id: number): string;
  /** The rest; incomplete characters come out as U+FFFD. */
  end(): string;
}

export interface Tokenizer {
  /** All ids are below this. */
  readonly vocabSize: number;
  encode(text: string): Int32Array;
  decode(ids: ArrayLike<number>): string;
  decoder(): TextDecoderStream;
}
