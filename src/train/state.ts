// Everything of a run that changes while it trains and is neither a tensor nor a file: what a checkpoint's
// `trainer` part is made from, and how it is read back.

import type { JsonValue, TrainerState } from "../checkpoint/content.js";
import type { DataPosition } from "../data/types.js";

export interface RunState {
  step: number;
  samples: number;
  tokens: number;
  /** Microbatches drawn, skipped ones included: names the draws of dropout. */
  microbatches: number;
  /** Updates since the optimiser state was last cleared: what bias correction counts. */
  optimizerUpdates: number;
  skippedUpdates: number;
  bestValidation: { readonly step: number; readonly loss: number } | null;
}

export function initialState(): RunState {
  return {
    step: 0,
    samples: 0,
    tokens: 0,
    microbatches: 0,
    optimizerUpdates: 0,
    skippedUpdates: 0,
    bestValidation: null,
  };
}

export function toTrainerState(
  state: RunState,
  parts: { data: DataPosition; seed: number; lr: number; coordinator: JsonValue },
): TrainerState {
  const { step, samples, tokens, bestValidation, microbatches, optimizerUpdates, skippedUpdates } = state;
  return {
    step,
    samples,
    tokens,
    data: parts.data,
    rng: { seed: parts.seed },
    schedule: { lr: parts.lr },
    bestValidation,
    counters: { microbatches, optimizerUpdates, skippedUpdates },
    coordinator: parts.coordinator,
  };
}

export function fromTrainerState(saved: TrainerState): RunState {
  const { step, samples, tokens, bestValidation, counters } = saved;
  return {
    step,
    samples,
    tokens,
    bestValidation,
    microbatches: counters.microbatches ?? 0,
    optimizerUpdates: counters.optimizerUpdates ?? step,
    skippedUpdates: counters.skippedUpdates ?? 0,
  };
}
