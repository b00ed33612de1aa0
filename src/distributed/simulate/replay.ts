// The outer step once more, as the specification has it and as simply as possible: what the auditor compares published
// versions with. Float32 after every operation.

import type { MergeSettings } from "../protocol/master-contract.js";

export type Tensors = ReadonlyMap<string, Float32Array>;

export interface ReplayedDelta {
  readonly floats: Tensors;
  readonly weight: number;
}

/** New state and momentum; `momentum` undefined: zeros. */
export function replayRound(
  state: Tensors,
  momentum: Tensors | undefined,
  deltas: readonly ReplayedDelta[],
  { lr, mu }: { readonly lr: number; readonly mu: number },
): { readonly state: Tensors; readonly momentum: Tensors } {
  const f = Math.fround;
  const nextState = new Map<string, Float32Array>();
  const nextMomentum = new Map<string, Float32Array>();
  for (const [name, old] of state) {
    const value = new Float32Array(old.length);
    const buffer = new Float32Array(old.length);
    for (let i = 0; i < old.length; i++) {
      let gradient = 0;
      for (const { floats, weight } of deltas) gradient = f(gradient + f(f(weight) * floats.get(name)![i]!));
      buffer[i] = f(f(f(mu) * (momentum?.get(name)?.[i] ?? 0)) + gradient);
      const effective = f(gradient + f(f(mu) * buffer[i]!));
      value[i] = old[i]! - f(lr) * effective;
    }
    nextState.set(name, value);
    nextMomentum.set(name, buffer);
  }
  return { state: nextState, momentum: nextMomentum };
}

/** Momentum of the round that makes version `outerStep`. */
export function replayedMu(outerStep: number, settings: MergeSettings): number {
  const { outerMomentum: full, momentumWarmupRounds: rounds } = settings;
  return outerStep > rounds ? full : (full * (outerStep - 1)) / rounds;
}

export interface WeighedDelta {
  readonly nodeId: string;
  readonly tokens: number | undefined;
  readonly norm: number;
  readonly age: number;
}

/** Factors of a round by tokens, age and length, and the norms that later rounds look back on. */
export function replayWeights(
  deltas: readonly WeighedDelta[],
  norms: readonly number[],
  { stalenessDiscount, clipFactor }: MergeSettings,
): { readonly weights: readonly number[]; readonly norms: readonly number[] } {
  const all = [...norms, ...deltas.map(({ norm }) => norm)].sort((a, b) => a - b);
  const longest =
    clipFactor === null ? Number.POSITIVE_INFINITY : clipFactor * all[Math.ceil(all.length / 2) - 1]!;
  const total = deltas.reduce((sum, { tokens }) => sum + (tokens ?? Number.NaN), 0);
  const weights = deltas.map(({ nodeId, norm, age }) => {
    const own = deltas.filter((other) => other.nodeId === nodeId);
    const share = own.reduce((sum, { tokens }) => sum + (tokens ?? Number.NaN), 0) / total;
    return share * stalenessDiscount ** age * Math.min(1, longest / norm);
  });
  return { weights, norms: [...norms, ...deltas.map(({ norm }) => Math.min(norm, longest))].slice(-64) };
}

export function normOf(floats: Tensors): number {
  let sum = 0;
  for (const values of floats.values()) for (const value of values) sum += value * value;
  return Math.sqrt(sum);
}

/** Whether the same numbers, bit for bit. */
export function isSameBits(a: Tensors, b: Tensors): boolean {
  if (a.size !== b.size) return false;
  return [...a].every(([name, values]) => {
    const other = b.get(name);
    return other?.length === values.length && values.every((value, i) => Object.is(value, other[i]));
  });
}
