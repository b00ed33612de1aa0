// What an optimiser is to the engine: names of the state it keeps per parameter, which starts at zero, and an
// update that runs the SIMD kernels over one contiguous region of a bank. Schedules, clipping and averaging
// happen outside.

import type { Kernels } from "../tensor/kernels/bank.js";
import type { MuonPlusMode } from "./muon-plus.js";

/** Constants of Muon. */
export interface MuonHyper {
  readonly momentum: number;
  /** Newton-Schulz iterations. */
  readonly steps: number;
  /** `none`: plain Muon; else which lengths of the orthogonalised update are made 1, in this order. */
  readonly plus: MuonPlusMode;
  readonly normEps: number;
  /** Multiplies the scheduled rate for Muon's matrices. */
  readonly lrScale: number;
  readonly weightDecay: number;
  /** `shape`: √max(1, rows/columns). `rms`: 0.2·√max(rows, columns), which has the RMS of AdamW's updates. */
  readonly scale: "shape" | "rms";
}

export interface CautiousHyper {
  /** Whether the mask holds back weight decay as well. */
  readonly masksDecay: boolean;
  /** Whether what is left of a tensor's update grows by the share that was dropped. */
  readonly rescales: boolean;
}

/** Constants of a run. */
export interface OptimizerHyper {
  readonly betas: readonly [number, number];
  readonly eps: number;
  readonly weightDecay: number;
  /** Of SGD. */
  readonly momentum?: number;
  readonly nesterov?: boolean;
  readonly muon?: MuonHyper;
  /** Present: parts of an update whose sign disagrees with the gradient are dropped. */
  readonly cautious?: CautiousHyper;
}

/** What changes from update to update. */
export interface UpdateStep {
  readonly lr: number;
  /** Number of this update, from 1: what bias correction counts. */
  readonly count: number;
  /** Multiplies every gradient: mean over targets and clipping in one. */
  readonly gradScale: number;
}

/** One tensor of a region. */
export interface RegionTensor {
  /** First value, from the start of the region: a multiple of 4. */
  readonly start: number;
  /** Number of values with padding, a multiple of 4. */
  readonly length: number;
  readonly shape: readonly number[];
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
  /** What the region consists of; rules that look at whole tensors need it. */
  readonly tensors?: readonly RegionTensor[];
}

/** Memory beside the state, in the region's bank, and the products of matrices. */
export interface Workspace {
  /** Room for the largest tensor. */
  readonly before: number;
  /** Room for `capacity` values each. */
  readonly direction: number;
  readonly result: number;
  readonly capacity: number;
  /** A view of the region's bank, valid until the next update; for rules that are no kernels. */
  values?(offset: number, length: number): Float32Array;
  /** Orthogonalises `count` matrices that lie one after another at `direction`, into `result`. */
  orthogonalize(count: number, rows: number, columns: number): Promise<void>;
}

export interface Optimizer {
  readonly name: string;
  /** State per parameter value, as PyTorch names it; zeros before the first update. */
  readonly slots: readonly string[];
  /** Works on matrices only. */
  readonly isForMatrices?: boolean;
  /** Only rules for matrices give a promise. */
  update(
    kernels: Kernels,
    region: Region,
    hyper: OptimizerHyper,
    step: UpdateStep,
    workspace?: Workspace,
  ): void | Promise<void>;
}

/** What is left of a parameter by weight decay. */
export function keptShare(decays: boolean, lr: number, weightDecay: number): number {
  return decays ? 1 - lr * weightDecay : 1;
}
