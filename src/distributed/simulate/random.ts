// Random numbers of a simulation: a stream per purpose, so that one more draw in one place changes nothing in another.

import { seedWords, threefry2x32, type Words } from "../../util/rng.js";
import { hash30 } from "../protocol/numbers.js";

export class RandomStream {
  readonly #key: Words;
  #count = 0;

  /** The same seed and purpose give the same numbers. */
  constructor(seed: number, purpose: string) {
    const [low, high] = seedWords(seed);
    this.#key = [(low ^ hash30(purpose)) >>> 0, high];
  }

  /** From 0 to below 1. */
  readonly next = (): number => {
    const [word] = threefry2x32(this.#key, this.#count++, 0);
    return word / 2 ** 32;
  };

  /** From `min` to below `max`. */
  between(min: number, max: number): number {
    return min + this.next() * (max - min);
  }

  /** An integer from `min` to `max`, both included. */
  whole(min: number, max: number): number {
    return Math.floor(this.between(min, max + 1));
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  pick<T>(values: readonly T[]): T {
    return values[Math.floor(this.next() * values.length)]!;
  }
}
