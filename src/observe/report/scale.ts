// Axes: from a range of values to a range of pixels, with round numbers to label. Linear or logarithmic.

import { formatCount, formatGeneral } from "../number-text.js";

export interface Scale {
  readonly min: number;
  readonly max: number;
  readonly isLog: boolean;
  readonly ticks: readonly number[];
  /** Share of the way from `min` to `max`, 0 to 1 inside. */
  place(value: number): number;
}

/** Steps of 1, 2 or 5 times a power of ten, about `count` of them. */
function linearTicks(min: number, max: number, count: number): number[] {
  const rough = (max - min) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough) ?? rough;
  const first = Math.ceil(min / step);
  const last = Math.floor(max / step + 1e-9);
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, index) => (first + index) * step);
}

function logTicks(min: number, max: number): number[] {
  const powers = (factors: readonly number[]): number[] => {
    const ticks: number[] = [];
    for (let power = Math.floor(Math.log10(min)); power <= Math.ceil(Math.log10(max)); power++)
      for (const factor of factors) ticks.push(factor * 10 ** power);
    return ticks.filter((tick) => tick >= min * (1 - 1e-9) && tick <= max * (1 + 1e-9));
  };
  const decades = powers([1]);
  if (decades.length >= 3) {
    const stride = Math.ceil(decades.length / 7);
    return decades.filter((_, index) => index % stride === 0);
  }
  const finer = powers([1, 2, 5]);
  return finer.length >= 3 ? finer : linearTicks(min, max, 5);
}

/** A scale that holds all `values`; never of no width. Only finite values count, and only positive ones if `isLog`. */
export function makeScale(values: Iterable<number>, wantsLog = false, padding = 0.04): Scale {
  let [min, max, smallest] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY];
  for (const value of values) {
    if (!Number.isFinite(value)) continue;
    min = Math.min(min, value);
    max = Math.max(max, value);
    if (value > 0) smallest = Math.min(smallest, value);
  }
  if (min > max) [min, max] = [0, 1];
  if (wantsLog && Number.isFinite(smallest)) return logScale(smallest, Math.max(max, smallest));
  if (min === max) {
    const half = Math.abs(min) * 0.1 || 1;
    [min, max] = [min - half, max + half];
  } else {
    const extra = (max - min) * padding;
    [min, max] = [min >= 0 ? Math.max(0, min - extra) : min - extra, max + extra];
  }
  const span = max - min;
  return { min, max, isLog: false, ticks: linearTicks(min, max, 5), place: (value) => (value - min) / span };
}

function logScale(smallest: number, largest: number): Scale {
  const [min, max] = smallest === largest ? [smallest / 2, largest * 2] : [smallest / 1.1, largest * 1.1];
  const span = Math.log(max / min);
  const place = (value: number): number => (value > 0 ? Math.log(value / min) / span : Number.NaN);
  return { min, max, isLog: true, ticks: logTicks(min, max), place };
}

/** Short, and exact enough for neighbouring ticks to differ. */
export function formatTick(value: number): string {
  if (value === 0) return "0";
  return Math.abs(value) >= 1000 ? formatCount(value) : formatGeneral(Number(value.toPrecision(6)), 4);
}
