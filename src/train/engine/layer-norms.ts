// L2 norms of parameters, gradients and updates, one by one. A look at one update: it copies all parameters, so it is
// made only when somebody asks.

import type { ParameterStore } from "./parameter-store.js";

/** By parameter name. */
export interface LayerNorms {
  /** Of the values before the update. */
  readonly parameter: Record<string, number>;
  /** Of the averaged gradient, before clipping. */
  readonly gradient: Record<string, number>;
  /** Of what the update changed. */
  readonly update: Record<string, number>;
}

/**
 * Measures what is there before an update; the returned function adds what the update changed.
 *
 * @param divisor what the store's gradients are still to be divided by
 */
export function beforeUpdate(store: ParameterStore, divisor: number): () => LayerNorms {
  const names = store.trainableNames();
  const before = new Map(names.map((name) => [name, store.parameter(name).data.slice()]));
  const gradient = Object.fromEntries(
    names.map((name) => [name, norm(store.gradient(name).data) / divisor] as const),
  );
  return () => ({
    parameter: Object.fromEntries([...before].map(([name, values]) => [name, norm(values)])),
    gradient,
    update: Object.fromEntries(
      [...before].map(([name, values]) => [name, distance(store.parameter(name).data, values)]),
    ),
  });
}

function norm(values: ArrayLike<number>): number {
  let squares = 0;
  for (let i = 0; i < values.length; i++) squares += values[i]! * values[i]!;
  return Math.sqrt(squares);
}

function distance(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let squares = 0;
  for (let i = 0; i < a.length; i++) squares += (a[i]! - b[i]!) ** 2;
  return Math.sqrt(squares);
}
