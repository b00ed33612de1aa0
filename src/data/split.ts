// Where the held-out tail starts, and the two halves of a dataset that is split by samples.

import type { Dataset } from "./types.js";

/**
 * How many of `total` items the last `fraction` of them is: rounded up, so that any fraction above zero
 * holds out something. The factor undoes rounding noise such as 100 × 0.07 = 7.000000000000001.
 */
export function tailLength(total: number, fraction: number): number {
  return Math.ceil(total * fraction * (1 - 1e-12));
}

/** Samples [start, end) of another dataset. It does not own that dataset and closes nothing. */
export class DatasetView<S> implements Dataset<S> {
  readonly length: number;

  constructor(
    private readonly dataset: Dataset<S>,
    private readonly start: number,
    private readonly end: number,
  ) {
    this.length = end - start;
  }

  get(index: number): S | Promise<S> {
    return this.dataset.get(this.start + index);
  }

  describe(): Record<string, unknown> {
    return { ...this.dataset.describe(), firstSample: this.start, endSample: this.end };
  }
}
