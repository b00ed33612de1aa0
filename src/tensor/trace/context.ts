// What model code may ask about the trace it runs in: whether it trains, and randomness for dropout.
// A stack of contexts, pushed for the duration of one synchronous call; nothing here survives it.

import { input, type Tensor } from "../tensor.js";

interface TraceContext {
  readonly training: boolean;
  rng: Tensor | undefined;
  sites: number;
}

const stack: TraceContext[] = [];

/** Name of the generator state among a graph's inputs: int32 [2] = (seed, draw). */
export const rngInputName = "rng";

/** Runs `fn` as one trace. `training` is what {@link isTraining} answers inside. */
export function withTrace<T>(options: { training: boolean }, fn: () => T): T {
  stack.push({ training: options.training, rng: undefined, sites: 0 });
  try {
    return fn();
  } finally {
    stack.pop();
  }
}

/** Whether the model is being traced for training (dropout on). False outside a trace. */
export function isTraining(): boolean {
  return stack.at(-1)?.training ?? false;
}

/**
 * The generator state and a fresh site number for one random draw. Sites count in program order, so the same
 * model code draws the same numbers at the same step. Undefined outside a trace.
 */
export function nextRandomSite(): { rng: Tensor; site: number } | undefined {
  const context = stack.at(-1);
  if (!context) return undefined;
  context.rng ??= input(rngInputName, [2], "int32");
  return { rng: context.rng, site: context.sites++ };
}
