// Statistics of tensors in one pass over their bytes, tensor by tensor. Sums are float64; mean and variance are
// merged piece by piece (Chan, Golub, LeVeque 1979), so that a large mean does not drown a small spread.

import { readPieces, type TensorEntry, type TensorReader } from "../../formats/safetensors/index.js";
import { Histogram } from "./histogram.js";
import { decodeValues, isPacked, type Values } from "./values.js";

/** All but the counts are of the finite values, and NaN where there are none. */
export interface TensorStatistics {
  readonly entry: TensorEntry;
  /** Numbers looked at: two per complex element. */
  readonly count: number;
  readonly nan: number;
  readonly positiveInfinite: number;
  readonly negativeInfinite: number;
  readonly zeros: number;
  readonly min: number;
  readonly max: number;
  readonly mean: number;
  /** Of the population (divided by the count). */
  readonly std: number;
  /** Square root of the sum of squares. */
  readonly norm: number;
  /** Counts in equal parts of [min, max]; empty where there is nothing to count. */
  readonly histogram: readonly number[];
  /** False for the packed 4- and 6-bit floats, whose values are not looked at. */
  readonly isDecoded: boolean;
}

export interface StatisticsOptions {
  /** Parts of the histogram; 0 (default) leaves it out, which is faster. */
  readonly histogramColumns?: number;
  readonly onBytes?: (bytes: number, tensor: string) => void;
}

/** Statistics of `names` (default: all tensors, in the order of their data), each as soon as it is known. */
export async function* tensorStatistics(
  reader: TensorReader,
  names: Iterable<string> = reader.entries.keys(),
  { histogramColumns = 0, onBytes }: StatisticsOptions = {},
): AsyncGenerator<TensorStatistics, void, undefined> {
  let gatherer: Gatherer | undefined;
  for await (const { entry, bytes, isLast } of readPieces(reader, names)) {
    gatherer ??= new Gatherer(entry, histogramColumns);
    if (!isPacked(entry.dtype)) gatherer.add(decodeValues(entry.dtype, bytes));
    onBytes?.(bytes.byteLength, entry.name);
    if (isLast) {
      yield gatherer.result();
      gatherer = undefined;
    }
  }
}

class Gatherer {
  readonly #entry: TensorEntry;
  readonly #columns: number;
  readonly #histogram: Histogram | undefined;
  #count = 0;
  #finite = 0;
  #nan = 0;
  #positiveInfinite = 0;
  #negativeInfinite = 0;
  #zeros = 0;
  #min = Number.POSITIVE_INFINITY;
  #max = Number.NEGATIVE_INFINITY;
  #mean = 0;
  /** Sum of squared distances from the mean. */
  #spread = 0;

  constructor(entry: TensorEntry, columns: number) {
    this.#entry = entry;
    this.#columns = columns;
    this.#histogram = columns > 0 ? new Histogram() : undefined;
  }

  add(values: Values): void {
    let [min, max] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
    let [sum, zeros, strange] = [0, 0, 0];
    for (let i = 0; i < values.length; i++) {
      const value = values[i]!;
      // Not a number or infinite: the difference is NaN.
      if (value - value !== 0) {
        strange++;
        continue;
      }
      if (value < min) min = value;
      if (value > max) max = value;
      if (value === 0) zeros++;
      sum += value;
    }
    if (strange > 0) this.#countStrange(values);
    this.#count += values.length;
    this.#zeros += zeros;
    const finite = values.length - strange;
    if (finite === 0) return;
    const mean = sum / finite;
    let spread = 0;
    for (let i = 0; i < values.length; i++) {
      const distance = values[i]! - mean;
      if (distance - distance === 0) spread += distance * distance;
    }
    this.#merge(finite, mean, spread);
    this.#min = Math.min(this.#min, min);
    this.#max = Math.max(this.#max, max);
    this.#histogram?.add(values, min, max);
  }

  result(): TensorStatistics {
    const isEmpty = this.#finite === 0;
    const orNaN = (value: number) => (isEmpty ? Number.NaN : value);
    const [min, max] = [orNaN(this.#min), orNaN(this.#max)];
    return {
      entry: this.#entry,
      count: this.#count,
      nan: this.#nan,
      positiveInfinite: this.#positiveInfinite,
      negativeInfinite: this.#negativeInfinite,
      zeros: this.#zeros,
      min,
      max,
      mean: orNaN(this.#mean),
      std: orNaN(Math.sqrt(this.#spread / this.#finite)),
      norm: orNaN(Math.sqrt(this.#spread + this.#finite * this.#mean * this.#mean)),
      histogram: isEmpty || !this.#histogram ? [] : this.#histogram.columns(this.#columns, min, max),
      isDecoded: !isPacked(this.#entry.dtype),
    };
  }

  #merge(count: number, mean: number, spread: number): void {
    const total = this.#finite + count;
    const distance = mean - this.#mean;
    this.#mean += (distance * count) / total;
    this.#spread += spread + (distance * distance * this.#finite * count) / total;
    this.#finite = total;
  }

  #countStrange(values: Values): void {
    for (let i = 0; i < values.length; i++) {
      const value = values[i]!;
      if (value === Number.POSITIVE_INFINITY) this.#positiveInfinite++;
      else if (value === Number.NEGATIVE_INFINITY) this.#negativeInfinite++;
      else if (Number.isNaN(value)) this.#nan++;
    }
  }
}
