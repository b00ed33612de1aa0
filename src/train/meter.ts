// Speed of one `fit`, and what MFU needs, known only after the first updates.

import type { RateMeter } from "../observe/rate-meter.js";

export class MeterState {
  flops: { readonly perToken: number } | undefined;
  peakFlops: number | undefined;
  /** Whether the first update's graphs are compiled and what that took is given back. */
  isWarm = false;

  constructor(
    readonly rates: RateMeter,
    readonly startStep: number,
  ) {}

  mfu(tokensPerSec: number): number | undefined {
    return this.flops && this.peakFlops ? (this.flops.perToken * tokensPerSec) / this.peakFlops : undefined;
  }
}
