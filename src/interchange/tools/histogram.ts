// A histogram in one pass over values whose range is not known beforehand: bins have a width that is a power of two,
// and become twice as wide whenever the values outgrow them. No value is kept.

const BINS = 4096;
/** Bins that the first values are spread over; the rest is room to grow. */
const FIRST_BINS = 1024;

export class Histogram {
  #counts = new Float64Array(BINS);
  /** Width of a bin; 0 before the first values. */
  #width = 0;
  /** Number of the first bin, in widths from zero. */
  #base = 0;

  /** Adds the finite ones of `values`, which lie between `min` and `max`. */
  add(values: Float32Array | Float64Array, min: number, max: number): void {
    if (!(min <= max)) return;
    if (this.#width === 0) this.#start(min, max);
    this.#include(min);
    this.#include(max);
    const counts = this.#counts;
    const scale = 1 / this.#width;
    const base = this.#base;
    for (let i = 0; i < values.length; i++) {
      const bin = Math.floor(values[i]! * scale) - base;
      // False for NaN and infinities as well.
      if (bin >= 0 && bin < BINS) counts[bin]!++;
    }
  }

  /** Counts in `columns` equal parts of [min, max]; a bin on a border goes where its middle lies. */
  columns(columns: number, min: number, max: number): number[] {
    const out = new Array<number>(columns).fill(0);
    // Halves, since the distance between two doubles can be beyond their range.
    const halfSpan = max / 2 - min / 2;
    for (let bin = 0; bin < BINS; bin++) {
      const count = this.#counts[bin]!;
      if (count === 0) continue;
      const middle = (this.#base + bin + 0.5) * this.#width;
      const at = halfSpan > 0 ? Math.floor(((middle / 2 - min / 2) / halfSpan) * columns) : 0;
      out[Math.max(0, Math.min(columns - 1, at))]! += count;
    }
    return out;
  }

  #start(min: number, max: number): void {
    const largest = Math.max(Math.abs(min), Math.abs(max));
    // Bin numbers must stay exact integers, and the scale finite.
    const finest = Math.max(largest * 2 ** -48, 2 ** -1000);
    const wanted = (max / 2 - min / 2) / (FIRST_BINS / 2);
    this.#width = 2 ** Math.ceil(Math.log2(Math.max(wanted, finest)));
    this.#base = Math.floor(min / this.#width) - (BINS - FIRST_BINS) / 2;
  }

  #include(value: number): void {
    let bin = Math.floor(value / this.#width) - this.#base;
    while (bin < 0 || bin >= BINS) {
      this.#widen(bin < 0);
      bin = Math.floor(value / this.#width) - this.#base;
    }
  }

  /** Merges pairs of bins; the freed half goes below or above. */
  #widen(below: boolean): void {
    const counts = new Float64Array(BINS);
    const base = Math.floor(this.#base / 2) - (below ? BINS / 2 - 1 : 0);
    for (let bin = 0; bin < BINS; bin++) {
      const count = this.#counts[bin]!;
      if (count !== 0) counts[Math.floor((this.#base + bin) / 2) - base]! += count;
    }
    this.#counts = counts;
    this.#base = base;
    this.#width *= 2;
  }
}
