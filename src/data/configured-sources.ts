// From the entries of `data.sources` to datasets: opens them as rows of ids, holds out the end of each, cuts the rest into
// samples, and puts several together.

import { DataError } from "../util/errors.js";
import { BlockDataset } from "./block-dataset.js";
import { ChainedDataset, MixedDataset } from "./mixture.js";
import type { ResolvedDataOptions } from "./options.js";
import { encoderOf } from "./prepared/encoder.js";
import { type OpenedCorpus, openCorpora } from "./prepared/open-corpora.js";
import type { TokenCorpus } from "./prepared/token-corpus.js";
import type { RemoteFiles } from "./sources/source-file.js";
import { tailLength } from "./split.js";
import type { Dataset, Tokenizer } from "./types.js";

export interface ConfiguredSources {
  readonly train: Dataset;
  readonly validation: Dataset | undefined;
  /** What the log should say of the data. */
  readonly notices: readonly DataNotice[];
  close(): Promise<void>;
}

export interface DataNotice {
  /** Such as `data.bad_records`. */
  readonly code: string;
  readonly message: string;
  readonly details: Readonly<Record<string, unknown>>;
}

export interface ConfiguredOptions {
  readonly config: ResolvedDataOptions;
  readonly tokenizer: Tokenizer;
  readonly endOfText: number | null;
  readonly cacheDirectory: string;
  readonly remote: RemoteFiles | undefined;
  readonly onProgress?: ((label: string, done: { documents: number; tokens: number }) => void) | undefined;
}

/** Throws DataError for data that is missing, damaged, too short or outside the vocabulary. */
export async function openConfiguredSources(options: ConfiguredOptions): Promise<ConfiguredSources> {
  const { config, tokenizer, endOfText, ...rest } = options;
  const encoder = encoderOf(tokenizer, endOfText);
  if (encoder.vocabSize > config.vocabSize)
    throw new DataError(
      `The vocabulary is too small for the tokenizer: it has ${encoder.vocabSize} ids, the model ${config.vocabSize}. ` +
        `Set model.vocab_size to at least ${encoder.vocabSize}.`,
      {
        code: "data.vocabulary_too_small",
        details: { tokenizerVocabSize: encoder.vocabSize, vocabSize: config.vocabSize },
      },
    );
  const corpora = await openCorpora({
    ...rest,
    specs: config.sources,
    encoder,
    badRecordLimit: config.badRecordLimit,
    maxTokens: config.maxTokens,
    workers: config.workers,
  });
  const close = async () => {
    for (const { corpus } of corpora) await corpus.close();
  };
  try {
    const parts = corpora.map((opened) => ({ ...opened, ...samplesOf(opened, config) }));
    const held = parts.flatMap(({ validation }) => validation ?? []);
    return {
      train: together(parts),
      validation: held.length === 0 ? undefined : held.length === 1 ? held[0]! : new ChainedDataset(held),
      notices: corpora.flatMap(badRecordNotice),
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

interface Samples {
  readonly train: Dataset;
  readonly validation: Dataset | undefined;
}

function samplesOf({ label, corpus }: OpenedCorpus, config: ResolvedDataOptions): Samples {
  const { blockSize, dropLast, validationFraction } = config;
  const splitAt = splitOf(corpus, validationFraction);
  if (splitAt < blockSize + 1) throw tooShortError(label, corpus, splitAt, config);
  const train = new BlockDataset({
    source: corpus,
    start: 0,
    end: splitAt,
    blockSize,
    keepShort: !dropLast,
  });
  if (splitAt === corpus.length) return { train, validation: undefined };
  // The first id of the tail is a label too: its input is the last id before it.
  const start = splitAt - 1;
  const validation = new BlockDataset({
    source: corpus,
    start,
    end: corpus.length,
    blockSize,
    keepShort: true,
  });
  return { train, validation };
}

/** Where the held-out tail begins: with a document, if one begins about there. */
function splitOf({ length, documentStarts }: TokenCorpus, fraction: number): number {
  const tail = tailLength(length, fraction);
  if (tail === 0) return length;
  const wanted = length - tail;
  let [low, high] = [0, documentStarts.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (documentStarts[middle]! < wanted) low = middle + 1;
    else high = middle;
  }
  const near = [documentStarts[low - 1] ?? 0, documentStarts[low]!]
    .filter((start) => start < length && Math.abs(start - wanted) <= tail / 10)
    .sort((a, b) => Math.abs(a - wanted) - Math.abs(b - wanted));
  return near[0] ?? wanted;
}

function together(parts: readonly (OpenedCorpus & Samples)[]): Dataset {
  if (parts.length === 1) return parts[0]!.train;
  const weighed = parts.flatMap(({ train, weight }) => (weight === null ? [] : { dataset: train, weight }));
  return weighed.length === parts.length
    ? new MixedDataset(weighed)
    : new ChainedDataset(parts.map(({ train }) => train));
}

function badRecordNotice({ label, corpus }: OpenedCorpus): DataNotice[] {
  const { count, examples } = corpus.manifest.bad_records;
  if (count === 0) return [];
  const [first] = examples;
  const others = examples.slice(1).map(({ where, reason }) => `; ${where}: ${reason}`);
  return [
    {
      code: "data.bad_records",
      message: `${count} records of ${label} were left out: ${first?.where}: ${first?.reason}${others.join("")}`,
      details: { count, examples },
    },
  ];
}

function tooShortError(
  label: string,
  corpus: TokenCorpus,
  trainIds: number,
  { blockSize, validationFraction }: ResolvedDataOptions,
): DataError {
  const heldOut = corpus.length - trainIds;
  const part = heldOut > 0 ? ` (${heldOut} of ${corpus.length} held out for validation)` : "";
  const shorter = trainIds >= 2 ? `set data.block_size to at most ${trainIds - 1}, or ` : "";
  const lessHeldOut = heldOut > 0 ? "lower the validation fraction, or " : "";
  return new DataError(
    `${label} is shorter than one block: ${trainIds} training tokens${part}, but a sample of data.block_size ` +
      `${blockSize} needs ${blockSize + 1}. To go on, ${shorter}${lessHeldOut}use a longer text.`,
    {
      code: "data.too_short",
      details: { label, tokens: corpus.length, trainTokens: trainIds, blockSize, validationFraction },
    },
  );
}
