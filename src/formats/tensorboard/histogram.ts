// A histogram of values in buckets whose ends grow by a tenth, as TensorBoard's own writers have them; only buckets
// from the first to the last that is used are kept. Values that are not finite are left out.

import type { HistogramMessage } from "./schema.js";

const smallest = 1e-12;
const largest = 1e20;
const growth = 1.1;

/** Rising ends from -1e20 to 1e20 with 0 in the middle. */
const limits: readonly number[] = (() => {
  const positive: number[] = [];
  for (let limit = smallest; limit < largest; limit *= growth) positive.push(limit);
  return [...positive.map((limit) => -limit).reverse(), 0, ...positive, Number.MAX_VALUE];
})();

/** Index of the first limit that is not below `value`. */
function bucketOf(value: number): number {
  let low = 0;
  let high = limits.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (limits[middle]! >= value) high = middle;
    else low = middle + 1;
  }
  return low;
}

export function histogramOf(values: Iterable<number>): HistogramMessage {
  const counts = new Map<number, number>();
  let [min, max, num, sum, sumSquares] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 0, 0, 0];
  for (const value of values) {
    if (!Number.isFinite(value)) continue;
    min = Math.min(min, value);
    max = Math.max(max, value);
    num += 1;
    sum += value;
    sumSquares += value * value;
    const index = bucketOf(value);
    counts.set(index, (counts.get(index) ?? 0) + 1);
  }
  if (num === 0) return { min: 0, max: 0, num, sum, sumSquares, bucketLimit: [0], bucket: [0] };
  const first = bucketOf(min);
  const last = bucketOf(max);
  const indices = Array.from({ length: last - first + 1 }, (_, offset) => first + offset);
  return {
    min,
    max,
    num,
    sum,
    sumSquares,
    bucketLimit: indices.map((index) => limits[index]!),
    bucket: indices.map((index) => counts.get(index) ?? 0),
  };
}
