// Several datasets as one: one after the other, or mixed by weights. Which sample stands where is a function of its index
// alone, so that shuffling, sharding and resuming work as they do with one dataset.

import { invariant } from "../util/errors.js";
import type { Dataset, Sample } from "./types.js";

/** All samples of the first, then all of the second, and so on. Closes nothing. */
export class ChainedDataset implements Dataset {
  readonly length: number;
  readonly #parts: readonly Dataset[];

  constructor(parts: readonly Dataset[]) {
    this.#parts = parts;
    this.length = parts.reduce((sum, { length }) => sum + length, 0);
  }

  get(index: number): Sample | Promise<Sample> {
    let rest = index;
    for (const part of this.#parts) {
      if (rest < part.length) return part.get(rest);
      rest -= part.length;
    }
    invariant(false, `sample ${index} is one of ${this.length}`);
  }

  describe(): Record<string, unknown> {
    return { kind: "chain", parts: this.#parts.map((part) => part.describe()) };
  }
}

export interface WeighedDataset {
  readonly dataset: Dataset;
  /** Above 0; only the proportions count. */
  readonly weight: number;
}

/**
 * Samples in proportion to the weights, spread evenly. One round lasts until each dataset has been seen at least once;
 * those that are too small for their weight are repeated within it. Closes nothing.
 */
export class MixedDataset implements Dataset {
  readonly length: number;
  readonly #parts: readonly { readonly dataset: Dataset; readonly count: number }[];
  readonly #weights: readonly number[];

  /** No dataset may be empty. */
  constructor(parts: readonly WeighedDataset[]) {
    const sum = parts.reduce((total, { weight }) => total + weight, 0);
    const round = Math.max(...parts.map(({ dataset, weight }) => (dataset.length * sum) / weight));
    this.#parts = parts.map(({ dataset, weight }) => ({
      dataset,
      count: Math.max(dataset.length, Math.round((round * weight) / sum)),
    }));
    this.#weights = parts.map(({ weight }) => weight / sum);
    this.length = this.#parts.reduce((total, { count }) => total + count, 0);
  }

  get(index: number): Sample | Promise<Sample> {
    // Each dataset in turn takes its share of the places that are left, as evenly as whole numbers allow.
    let place = index;
    let left = this.length;
    for (const { dataset, count } of this.#parts) {
      const before = floorOfProduct(place, count, left);
      if (floorOfProduct(place + 1, count, left) > before) return dataset.get(before % dataset.length);
      place -= before;
      left -= count;
    }
    invariant(false, `sample ${index} is one of ${this.length}`);
  }

  describe(): Record<string, unknown> {
    const parts = this.#parts.map(({ dataset }) => dataset.describe());
    return { kind: "mixture", weights: this.#weights, parts };
  }
}

/** ⌊a · b / c⌋, exact for any safe integers. */
function floorOfProduct(a: number, b: number, c: number): number {
  const product = a * b;
  if (product <= Number.MAX_SAFE_INTEGER) return Math.floor(product / c);
  return Number((BigInt(a) * BigInt(b)) / BigInt(c));
}
