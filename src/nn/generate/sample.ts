// Choosing the next token from logits: a pure function of the logits, the options, the seed and the token's
// place in the sequence. No generator that advances, so any token can be drawn again on its own.

import { ConfigError, ModelError } from "../../util/errors.js";
import { seedWords, threefry2x32 } from "../../util/rng.js";

export interface SamplingOptions {
  /** 0 takes the likeliest token; larger is more random. Default 1. */
  temperature?: number;
  /** Choose among the k likeliest tokens only; null (default) means all. */
  topK?: number | null;
  /** Any safe integer. Default 0. */
  seed?: number;
}

/** Fills in defaults. Throws ConfigError for values out of range. */
export function resolveSampling(options: SamplingOptions): Required<SamplingOptions> {
  const { temperature = 1, topK = null, seed = 0 } = options;
  const refuse = (name: string, rule: string, value: unknown) =>
    new ConfigError(`${name} must be ${rule}, got ${value}`, {
      code: "generate.option",
      details: { name, value },
    });
  if (!(Number.isFinite(temperature) && temperature >= 0))
    throw refuse("temperature", "a number not below 0", temperature);
  if (topK !== null && !(Number.isInteger(topK) && topK >= 1))
    throw refuse("topK", "a positive integer or null", topK);
  if (!Number.isSafeInteger(seed)) throw refuse("seed", "a safe integer", seed);
  return { temperature, topK, seed };
}

/**
 * The id chosen from `logits` [V] for place `index` of the sequence. Ties go to the smaller id.
 * @throws ModelError when a logit is NaN or +∞, or all are −∞
 */
export function sampleToken(logits: ArrayLike<number>, index: number, options: SamplingOptions = {}): number {
  const { temperature, topK, seed } = resolveSampling(options);
  const best = likeliest(logits);
  if (temperature === 0 || topK === 1) return best;

  const allowed =
    topK !== null && topK < logits.length ? largest(logits, topK) : Array.from(logits, (_, id) => id);
  const weights = allowed.map((id) => Math.exp((logits[id]! - logits[best]!) / temperature));
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  let left = uniformAt(seed, index) * total;
  for (const [i, id] of allowed.entries()) {
    left -= weights[i]!;
    if (left < 0) return id;
  }
  // Rounding may leave a crumb: it belongs to the last token that had any weight.
  return allowed[weights.findLastIndex((weight) => weight > 0)]!;
}

function likeliest(logits: ArrayLike<number>): number {
  let best = -1;
  for (let id = 0; id < logits.length; id++) {
    const logit = logits[id]!;
    if (Number.isNaN(logit) || logit === Number.POSITIVE_INFINITY) throw notFinite(id, logit);
    if (logit > (best < 0 ? Number.NEGATIVE_INFINITY : logits[best]!)) best = id;
  }
  if (best < 0) throw notFinite(0, logits[0]);
  return best;
}

/** The `count` ids with the largest logits, ascending. */
function largest(logits: ArrayLike<number>, count: number): number[] {
  const ids = Array.from(logits, (_, id) => id).sort((a, b) => logits[b]! - logits[a]! || a - b);
  return ids.slice(0, count).sort((a, b) => a - b);
}

/** Uniform over [0, 1) with 53 bits, named by seed and index. */
function uniformAt(seed: number, index: number): number {
  const [low, high] = threefry2x32(seedWords(seed), index >>> 0, Math.floor(index / 2 ** 32));
  return ((high >>> 5) * 2 ** 26 + (low >>> 6)) / 2 ** 53;
}

function notFinite(id: number, logit: number | undefined): ModelError {
  return new ModelError(
    `cannot choose a token: the logit of id ${id} is ${logit}, so the model's weights are broken`,
    {
      code: "generate.logits",
      details: { id, logit },
    },
  );
}
