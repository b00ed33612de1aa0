// Dropout's randomness: bits as a pure function of (seed, step, site, element), so that a resumed run draws
// the same masks and every backend the same bits. Only 32-bit add, xor, shift, rotate and low multiply are
// used. Not for secrets, and no general generator: see util/rng for those.

import { threefry2x32 } from "../util/rng.js";

/**
 * Two 32-bit keys for one dropout site at one step. Full-strength mixing (Threefry-2x32, 20 rounds), since
 * neighbouring seeds, steps and sites must give unrelated streams; computed once per mask.
 */
export function dropoutKeys(seed: number, step: number, site: number): [k0: number, k1: number] {
  const [k0, k1] = threefry2x32([seed >>> 0, site >>> 0], step, siteDomain);
  return [k0, k1];
}

/** Keeps these keys apart from other uses of the same generator and seed. */
const siteDomain = 0x64726f70;

/**
 * 32 uniform bits for element `index` (0 … 2^32−1). For fixed keys a bijection of the index: a golden-ratio
 * (Weyl) sequence, then two rounds of xorshift and multiply, one key before each. Without the sequence,
 * neighbours correlate for some keys. Four lanes need no multiply for it: add 4 · `weyl` per step. The other
 * constants are those of a published low-bias search ("hash prospector", C. Wellons and contributors).
 */
export function dropoutBits(k0: number, k1: number, index: number): number {
  let x = Math.imul(index, weyl) ^ k0;
  x = Math.imul(x ^ (x >>> 16), 0x21f0aaad);
  x = (x + k1) | 0;
  x = Math.imul(x ^ (x >>> 15), 0x735a2d97);
  return (x ^ (x >>> 15)) >>> 0;
}

/** 2^32 divided by the golden ratio, made odd. */
const weyl = 0x9e3779b1;

/** An element is kept iff its bits are at least this (unsigned). `rate` is the probability to drop. */
export function dropoutThreshold(rate: number): number {
  return Math.min(Math.round(rate * 2 ** 32), 2 ** 32 - 1);
}

/** What a kept element is multiplied with: 1/(1−rate) as a float32. */
export function dropoutScale(rate: number): number {
  return Math.fround(1 / (1 - rate));
}
