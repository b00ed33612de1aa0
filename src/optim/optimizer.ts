// What an optimiser is to the engine: names of the state it keeps per parameter, and an update that runs the
// SIMD kernels over one contiguous region of a bank. Schedules, clipping and averaging happen outside.

import type { Kernels } from "../tensor/kernels/bank.js";

/** Constants of a run. */
export interface OptimizerHyper {
  readonly betas: readonly [number, number];
  readonly eps: number;
  readonly weightDecay: number;
}

/** What changes from update to update. */
export interface UpdateStep {
  readonly lr: number;
  /** Number of this update, from 1: what bias correction counts. */
  readonly count: number;
  /** Multiplies every gradient: mean over targets and clipping in one. */
  readonly gradScale: number;
}

/** Offsets into one bank of equally long runs of float32 values. */
export interface Region {
  readonly parameter: number;
  readonly gradient: number;
  /** One per slot of the optimiser, in its order. */
  readonly slots: readonly number[];
  /** Number of values, a multiple of 4. */
  readonly length: number;
  /** Whether weight decay applies to these parameters. */
  readonly decays: boolean;
}

export interface Optimizer {
  readonly name: string;
  /** State per parameter value, as PyTorch names it; zeros before the first update. */
  readonly slots: readonly string[];
  update(kernels: Kernels, region: Region, hyper: OptimizerHyper, step: UpdateStep): void;
}
