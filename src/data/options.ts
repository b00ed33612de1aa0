// What the data pipeline can be told, its defaults and its value checks. Names of configuration keys appear
// in messages only; the mapping from a configuration file to these options is not made here.

import { ConfigError } from "../util/errors.js";
import type { WeighedSpec } from "./prepared/open-corpora.js";

/** Switches that bring back behaviour of the Python system. */
export interface DataCompat {
  /**
   * Cut text into groups of `blockSize + 1` ids that share nothing, so that one transition in
   * `blockSize + 1` is never trained; the short last group is always a sample. Default false.
   */
  textStride?: boolean | undefined;
  /**
   * Synthetic sample `i` comes from MT19937 seeded with `seed + i`, so that sample `i` of one seed is sample
   * `i − 1` of the next. Default **true**, since synthetic data is there to be compared with; false mixes
   * seed and index by a hash.
   */
  syntheticSeeds?: boolean | undefined;
  /** Bytes at or above the vocabulary size wrap around instead of being refused. Default false. */
  byteModulo?: boolean | undefined;
}

/** Files, patterns, datasets of a hub or prepared folders: one entry of `data.sources`. */
export interface DataSourceOptions {
  paths: readonly string[];
  /** Default `auto`: what names and folders say. */
  format?: WeighedSpec["format"] | undefined;
  /** Field or column with the text; a dot leads into an object. Default `text`. */
  textField?: string | undefined;
  /** Makes the text of several fields: `{question}\n{answer}`. */
  template?: string | null | undefined;
  /** What lies between two documents of a text file; by default a file is one document. */
  separator?: string | null | undefined;
  /** Share of the samples, in proportion to the other entries; with one in all entries or in none. */
  weight?: number | null | undefined;
}

export interface DataOptions {
  /** Train on the bytes of this file. Wins over `synthetic`. */
  textPath?: string | null | undefined;
  /** Documents to tokenise, or tokenised ones. Not together with `textPath`; wins over `synthetic`. */
  sources?: readonly DataSourceOptions[] | null | undefined;
  /** Only so many ids of each text that is tokenised, from its beginning. Default: all. */
  maxTokens?: number | null | undefined;
  /** Records that may be left out because they cannot be used; one more is a DataError. Default 100. */
  badRecordLimit?: number | undefined;
  /** Train on seeded random ids when there is no text. Default true. */
  synthetic?: boolean | undefined;
  /** Number of synthetic **samples** (the name is historical). Default 100,000. */
  numTokens?: number | undefined;
  vocabSize: number;
  /** Input ids per sample. */
  blockSize: number;
  /** Samples per batch. */
  microBatchSize: number;
  /** Visit the samples of each epoch in an order drawn from (seed, epoch). Default false. */
  shuffle?: boolean | undefined;
  /** Leave out what does not fill a block or a batch at the end of an epoch. Default true. */
  dropLast?: boolean | undefined;
  /** Any safe integer. Default 0. */
  seed?: number | undefined;
  /** With `prefetchFactor`: how many batches are prepared ahead, `numWorkers * prefetchFactor`. Default 0. */
  numWorkers?: number | undefined;
  /** Default 2; without workers nothing is prefetched. */
  prefetchFactor?: number | null | undefined;
  /** Share of the text's bytes (or of a dataset's samples), taken from its end, kept for validation. */
  validationFraction?: number | undefined;
  /** Text files up to this size are held in memory, larger ones are read block by block. Default 512 MiB. */
  textMemoryLimitBytes?: number | undefined;
  compat?: DataCompat | undefined;
}

export interface ResolvedDataOptions {
  readonly textPath: string | undefined;
  readonly sources: readonly WeighedSpec[];
  readonly badRecordLimit: number;
  readonly maxTokens: number | null;
  /** Threads that tokenise. */
  readonly workers: number;
  readonly synthetic: boolean;
  readonly syntheticSamples: number;
  readonly vocabSize: number;
  readonly blockSize: number;
  readonly microBatchSize: number;
  readonly shuffle: boolean;
  readonly dropLast: boolean;
  readonly seed: number;
  readonly prefetchBatches: number;
  readonly validationFraction: number;
  readonly textMemoryLimitBytes: number;
  readonly compat: Readonly<Required<{ [K in keyof DataCompat]: boolean }>>;
}

/** Fills in defaults and refuses values outside their range with a ConfigError that names the key. */
export function resolveDataOptions(options: DataOptions): ResolvedDataOptions {
  const numWorkers = options.numWorkers ?? 0;
  const prefetchFactor = options.prefetchFactor ?? 2;
  const seed = options.seed ?? 0;
  const validationFraction = options.validationFraction ?? 0;

  requireInteger("data.vocab_size", options.vocabSize, 1);
  requireInteger("data.block_size", options.blockSize, 1);
  requireInteger("data.micro_batch_size", options.microBatchSize, 1);
  requireInteger("data.num_tokens", options.numTokens ?? 1, 1);
  requireInteger("data.num_workers", numWorkers, 0);
  requireInteger("data.prefetch_factor", prefetchFactor, 1);
  requireInteger("data.seed", seed, Number.MIN_SAFE_INTEGER);
  requireInteger("data.max_tokens", options.maxTokens ?? 1, 1);
  requireInteger("data.bad_record_limit", options.badRecordLimit ?? 0, 0);
  if (!(validationFraction >= 0 && validationFraction < 1)) {
    throw optionError("data.validation_fraction", validationFraction, "at least 0 and below 1");
  }

  return {
    textPath: options.textPath || undefined,
    sources: resolveSources(options),
    badRecordLimit: options.badRecordLimit ?? 100,
    maxTokens: options.maxTokens ?? null,
    workers: Math.max(1, numWorkers),
    synthetic: options.synthetic ?? true,
    syntheticSamples: options.numTokens ?? 100_000,
    vocabSize: options.vocabSize,
    blockSize: options.blockSize,
    microBatchSize: options.microBatchSize,
    shuffle: options.shuffle ?? false,
    dropLast: options.dropLast ?? true,
    seed,
    prefetchBatches: numWorkers * prefetchFactor,
    validationFraction,
    textMemoryLimitBytes: options.textMemoryLimitBytes ?? 512 * 2 ** 20,
    compat: {
      textStride: options.compat?.textStride ?? false,
      syntheticSeeds: options.compat?.syntheticSeeds ?? true,
      byteModulo: options.compat?.byteModulo ?? false,
    },
  };
}

function resolveSources({ sources, textPath }: DataOptions): WeighedSpec[] {
  const specs = (sources ?? []).map((source) => ({
    paths: source.paths,
    format: source.format ?? "auto",
    textField: source.textField ?? "text",
    template: source.template ?? null,
    separator: source.separator ?? null,
    weight: source.weight ?? null,
  }));
  const weights = specs.flatMap(({ weight }) => weight ?? []);
  for (const weight of weights)
    if (!(weight > 0 && Number.isFinite(weight)))
      throw optionError("data.sources[].weight", weight, "above 0");
  const problem =
    specs.length > 0 && textPath
      ? "data.text_path and data.sources are both set. Keep one; a text file can be an entry of data.sources."
      : weights.length > 0 && weights.length < specs.length
        ? `${weights.length} of ${specs.length} entries of data.sources have a weight. Give each one, or none.`
        : specs.some(({ paths }) => paths.length === 0)
          ? "An entry of data.sources names no path."
          : undefined;
  if (problem !== undefined) throw new ConfigError(problem, { code: "config.data_sources" });
  return specs;
}

function requireInteger(key: string, value: number, minimum: number): void {
  if (Number.isSafeInteger(value) && value >= minimum) return;
  throw optionError(key, value, minimum < 0 ? "a safe integer" : `an integer of at least ${minimum}`);
}

function optionError(key: string, value: unknown, rule: string): ConfigError {
  return new ConfigError(`${key} must be ${rule}, but is ${String(value)}.`, {
    code: "config.value_out_of_range",
    details: { key, value },
  });
}
