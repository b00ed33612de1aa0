// What the data pipeline can be told, its defaults and its value checks. Names of configuration keys appear
// in messages only; the mapping from a configuration file to these options is not made here.

import { ConfigError } from "../util/errors.js";

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

export interface DataOptions {
  /** Train on the bytes of this file. Wins over `synthetic`. */
  textPath?: string | null | undefined;
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
  if (!(validationFraction >= 0 && validationFraction < 1)) {
    throw optionError("data.validation_fraction", validationFraction, "at least 0 and below 1");
  }

  return {
    textPath: options.textPath || undefined,
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
