// From options to a running pipeline: chooses the source (a dataset given by the caller, else text, else
// synthetic ids), holds out the validation tail, and puts the loader on top. All refusals of bad data that
// can be made before the first batch are made here.

import { ConfigError, DataError } from "../util/errors.js";
import { BlockDataset } from "./block-dataset.js";
import { ByteTokenizer } from "./byte-tokenizer.js";
import { CheckedDataset } from "./checked-dataset.js";
import { collateCausal } from "./collate.js";
import { collateSamples, type RecordSample } from "./collate-records.js";
import { type DataNotice, openConfiguredSources } from "./configured-sources.js";
import { openTextFile } from "./files/text-file.js";
import { createDataLoader } from "./loader.js";
import { type DataOptions, type ResolvedDataOptions, resolveDataOptions } from "./options.js";
import { ShardSampler, type ShardSamplerOptions } from "./shard-sampler.js";
import { cacheFolder } from "./sources/cache-folder.js";
import type { RemoteFiles } from "./sources/source-file.js";
import { DatasetView, tailLength } from "./split.js";
import { SyntheticDataset } from "./synthetic.js";
import { checkBytesFit, encodeText, type TokenSource, wrapIds } from "./token-source.js";
import type { DataLoader, Dataset, Tokenizer } from "./types.js";

export interface BuildDataloaderOptions {
  config: DataOptions;
  /** Samples of your own; wins over text and synthetic data. You close it yourself. */
  dataset?: Dataset | Dataset<RecordSample> | undefined;
  /** Default: bytes. */
  tokenizer?: Tokenizer | undefined;
  /** Put after each document of `sources`; null or left out: nothing is. */
  endOfText?: number | null | undefined;
  /** Reads what `sources` names by an address, such as `hf://datasets/org/name`. */
  remote?: RemoteFiles | undefined;
  /** Where texts of `sources` are kept once they are tokenised. Default: see `cacheFolder`. */
  cacheDirectory?: string | undefined;
  /** Is told while a text is tokenised. */
  onProgress?: ((label: string, done: { documents: number; tokens: number }) => void) | undefined;
  /** Train in shards, for a node that shares its data with others: see `ShardSampler`. `dropLast` has no effect then. */
  shards?: Pick<ShardSamplerOptions, "shardCount" | "walk"> | undefined;
}

export interface DataPipeline {
  /** Closing it also closes the file behind `validation`. */
  train: DataLoader;
  /** The held-out tail: each id of it is a label exactly once. Undefined without a validation fraction. */
  validation: Dataset | undefined;
  tokenizer: Tokenizer;
  /** What the samples and their order depend on, as JSON values: equal fingerprints, equal batches. */
  fingerprint: Record<string, unknown>;
  /** What the log should say of the data, such as records that were left out. */
  notices: readonly DataNotice[];
  /** Of data in shards: what the shards of two nodes have in common if it is equal. */
  corpus?: { readonly samples: number; readonly content: Record<string, unknown> } | undefined;
}

interface Sources {
  train: Dataset;
  validation: Dataset | undefined;
  notices?: readonly DataNotice[];
  close?: () => Promise<void>;
}

/**
 * Throws ConfigError for option values out of range or no source at all, DataError for data that is
 * missing, unreadable, too short or outside the vocabulary.
 */
export async function buildDataloader(options: BuildDataloaderOptions): Promise<DataPipeline> {
  const config = resolveDataOptions(options.config);
  const tokenizer = options.tokenizer ?? defaultTokenizer(config);
  const sources = await openSources(config, options, tokenizer);
  const { train: dataset, validation } = sources;
  const { microBatchSize, shuffle, dropLast, seed, prefetchBatches } = config;
  const { shards } = options;
  try {
    const sampler =
      shards && new ShardSampler({ ...shards, length: dataset.length, batchSize: microBatchSize, shuffle });
    const train = createDataLoader({
      dataset,
      batchSize: microBatchSize,
      collate: options.dataset ? collateSamples : collateCausal,
      shuffle,
      dropLast,
      seed,
      prefetchBatches,
      ...(sampler === undefined ? {} : { sampler }),
      ...(sources.close === undefined ? {} : { onClose: sources.close }),
    });
    const source = dataset.describe();
    const pipeline = { train, validation, tokenizer, notices: sources.notices ?? [] };
    if (shards !== undefined) {
      const fingerprint = { source, order: { shuffle, shards: shards.shardCount }, microBatchSize };
      return { ...pipeline, fingerprint, corpus: { samples: dataset.length, content: { source, shuffle } } };
    }
    const order = shuffle ? { shuffle, seed } : { shuffle };
    return { ...pipeline, fingerprint: { source, order, microBatchSize, dropLast } };
  } catch (error) {
    await sources.close?.();
    throw error;
  }
}

/** Bytes, as many as the model knows. */
export function defaultTokenizer(config: ResolvedDataOptions): ByteTokenizer {
  const overflow = config.compat.byteModulo ? "modulo" : "refuse";
  return new ByteTokenizer({ vocabSize: config.vocabSize, overflow });
}

async function openSources(
  config: ResolvedDataOptions,
  { dataset, endOfText, remote, cacheDirectory, onProgress }: BuildDataloaderOptions,
  tokenizer: Tokenizer,
): Promise<Sources> {
  if (dataset !== undefined) return splitSamples(new CheckedDataset(dataset, config.vocabSize), config);
  if (config.textPath !== undefined) return openText(config, config.textPath, tokenizer);
  if (config.sources.length > 0)
    return openConfiguredSources({
      config,
      tokenizer,
      endOfText: endOfText ?? null,
      cacheDirectory: cacheDirectory ?? cacheFolder(null, process.env),
      remote,
      onProgress,
    });
  if (config.synthetic) {
    const { syntheticSamples: samples, blockSize, vocabSize, seed, compat } = config;
    const seeding = compat.syntheticSeeds ? "offset" : "mixed";
    return splitSamples(new SyntheticDataset({ samples, blockSize, vocabSize, seed, seeding }), config);
  }
  throw new ConfigError(
    "There is no data to train on: data.synthetic is false, and neither data.text_path, data.sources nor a dataset " +
      "is given. Set data.text_path to a text file.",
    { code: "config.no_data_source" },
  );
}

function splitSamples(dataset: Dataset, config: ResolvedDataOptions): Sources {
  const tail = tailLength(dataset.length, config.validationFraction);
  if (tail === 0) return { train: dataset, validation: undefined };
  const split = dataset.length - tail;
  return {
    train: new DatasetView(dataset, 0, split),
    validation: new DatasetView(dataset, split, dataset.length),
  };
}

async function openText(config: ResolvedDataOptions, path: string, tokenizer: Tokenizer): Promise<Sources> {
  const bytes = await openTextFile({ path, memoryLimitBytes: config.textMemoryLimitBytes });
  try {
    const { source, splitAt } = await tokenise(config, path, bytes, tokenizer);
    return blocksOf(config, path, source, splitAt);
  } catch (error) {
    await bytes.close();
    throw error;
  }
}

// V8 cannot make longer strings.
const longestStringBytes = 2 ** 29 - 24;

async function tokenise(
  config: ResolvedDataOptions,
  path: string,
  bytes: TokenSource,
  tokenizer: Tokenizer,
): Promise<{ source: TokenSource; splitAt: number }> {
  const { vocabSize, validationFraction } = config;
  const where = `data.text_path "${path}"`;
  const splitByte = bytes.length - tailLength(bytes.length, validationFraction);

  // Bytes are ids already and stay where they are. (A subclass may encode differently.)
  if (tokenizer instanceof ByteTokenizer && tokenizer.constructor === ByteTokenizer) {
    const byteLimit = Math.min(vocabSize, tokenizer.vocabSize);
    if (byteLimit < 256 && tokenizer.overflow === "modulo") {
      return { source: wrapIds(bytes, byteLimit), splitAt: splitByte };
    }
    await checkBytesFit(bytes, byteLimit, where);
    return { source: bytes, splitAt: splitByte };
  }
  if (tokenizer.vocabSize > vocabSize) {
    throw new DataError(
      `The vocabulary is too small for the tokenizer: it has ${tokenizer.vocabSize} ids, the model ${vocabSize}. ` +
        `Set model.vocab_size to at least ${tokenizer.vocabSize}.`,
      {
        code: "data.vocabulary_too_small",
        details: { tokenizerVocabSize: tokenizer.vocabSize, vocabSize },
      },
    );
  }
  const limitBytes = Math.min(config.textMemoryLimitBytes, longestStringBytes);
  if (bytes.length > limitBytes) {
    throw new DataError(
      `${where} has ${bytes.length} bytes. With a tokenizer other than bytes the whole text must fit in memory ` +
        `(at most ${limitBytes} bytes). Use a shorter text, or the byte tokenizer.`,
      { code: "data.too_large_to_tokenise", details: { path, sizeBytes: bytes.length } },
    );
  }
  return encodeText({ bytes, tokenizer, splitByte, vocabSize, where });
}

function blocksOf(config: ResolvedDataOptions, path: string, source: TokenSource, splitAt: number): Sources {
  const { blockSize, dropLast, compat } = config;
  const layout = compat.textStride ? "disjoint" : "shared";
  // The Python layout always keeps the short last group and accepts a text that is nothing else.
  const keepShort = compat.textStride || !dropLast;
  const idsNeeded = compat.textStride ? 2 : blockSize + 1;
  if (splitAt < idsNeeded) throw tooShortError(config, path, source, splitAt, idsNeeded);

  const train = new BlockDataset({ source, start: 0, end: splitAt, blockSize, layout, keepShort });
  // The first id of the tail is a label too: its input is the last id before it.
  const validation =
    splitAt < source.length
      ? new BlockDataset({ source, start: splitAt - 1, end: source.length, blockSize, keepShort: true })
      : undefined;
  return { train, validation, close: () => source.close() };
}

function tooShortError(
  config: ResolvedDataOptions,
  path: string,
  source: TokenSource,
  trainIds: number,
  idsNeeded: number,
): DataError {
  const { blockSize, validationFraction } = config;
  const heldOut = source.length - trainIds;
  const part = heldOut > 0 ? ` (${heldOut} of ${source.length} held out for validation)` : "";
  const shorter = trainIds >= 2 ? `set data.block_size to at most ${trainIds - 1}, or ` : "";
  const lessHeldOut = heldOut > 0 ? "lower the validation fraction, or " : "";
  return new DataError(
    `data.text_path "${path}" is shorter than one block: ${trainIds} training tokens${part}, but a sample of ` +
      `data.block_size ${blockSize} needs ${idsNeeded}. To go on, ${shorter}${lessHeldOut}use a longer text.`,
    {
      code: "data.too_short",
      details: {
        path,
        tokens: source.length,
        trainTokens: trainIds,
        blockSize,
        validationFraction,
        idsNeeded,
      },
    },
  );
}
