// What model code may ask about the trace it runs in: whether it trains, and randomness for dropout.
// A stack of contexts, pushed for the duration of one synchronous call; nothing here survives it.

import { operatorError } from "../errors.js";
import { formatShape, sameShape } from "../shape.js";
import { input, type Tensor, type ValueType } from "../tensor.js";

/**
 * Values that modules keep from run to run, such as running statistics: inputs of the graph, and where the trace
 * replaces one, a result of it.
 */
export interface LiveValues {
  /** Name of the input for what `owner` keeps; undefined where it is none. */
  nameOf(owner: object): string | undefined;
  /** By name, what the trace replaces. */
  readonly updates: Map<string, Tensor>;
}

interface TraceContext {
  readonly training: boolean;
  readonly live: LiveValues | undefined;
  readonly read: Map<string, Tensor>;
  rng: Tensor | undefined;
  sites: number;
}

const stack: TraceContext[] = [];

/** Name of the generator state among a graph's inputs: int32 [2] = (seed, draw). */
export const rngInputName = "rng";

/** Runs `fn` as one trace. `training` is what {@link isTraining} answers inside. */
export function withTrace<T>(options: { training: boolean; live?: LiveValues }, fn: () => T): T {
  const { training, live } = options;
  stack.push({ training, live, read: new Map(), rng: undefined, sites: 0 });
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

/** The present value of what `owner` keeps, as the trace at hand sees it; undefined where it is a constant. */
export function liveValue(owner: object, { shape, dtype }: ValueType): Tensor | undefined {
  const context = stack.at(-1);
  const name = context?.live?.nameOf(owner);
  if (!context?.live || name === undefined) return undefined;
  const replaced = context.live.updates.get(name);
  if (replaced) return replaced;
  const known = context.read.get(name);
  if (known) return known;
  const read = input(name, shape, dtype);
  context.read.set(name, read);
  return read;
}

/** Has the graph replace what `owner` keeps by `next`. Without effect where it is a constant. */
export function replaceLive(owner: object, next: Tensor, { shape, dtype }: ValueType): void {
  const live = stack.at(-1)?.live;
  const name = live?.nameOf(owner);
  if (!live || name === undefined) return;
  if (next.dtype !== dtype || !sameShape(next.shape, shape))
    throw operatorError(
      "replaceLive",
      `"${name}" keeps ${dtype}${formatShape(shape)}, and cannot become ${next.dtype}${formatShape(next.shape)}`,
      [next],
    );
  live.updates.set(name, next);
}
