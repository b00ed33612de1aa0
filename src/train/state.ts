// Everything of a run that changes while it trains and is neither a tensor nor a file: what a checkpoint's
// `trainer` part is made from, and how it is read back.

import type { JsonObject, JsonValue, TrainerState } from "../checkpoint/content.js";
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
  /** Where the run came from, for people: the report about its initial weights. */
  extra?: JsonObject;
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
  parts: {
    data: DataPosition;
    seed: number;
    schedule: JsonObject;
    coordinator: JsonValue;
    /** The last evaluation; of interest only if it was made at this step. */
    evaluation: { readonly step: number; readonly loss: number; readonly tokens: number } | null;
  },
): TrainerState {
  const { step, samples, tokens, bestValidation, microbatches, optimizerUpdates, skippedUpdates } = state;
  const { evaluation } = parts;
  return {
    step,
    samples,
    tokens,
    data: parts.data,
    rng: { seed: parts.seed },
    schedule: parts.schedule,
    bestValidation,
    validation: evaluation?.step === step ? { loss: evaluation.loss, tokens: evaluation.tokens } : null,
    counters: { microbatches, optimizerUpdates, skippedUpdates },
    coordinator: parts.coordinator,
    ...(state.extra ? { extra: state.extra } : {}),
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
    ...(saved.extra ? { extra: saved.extra } : {}),
  };
}
