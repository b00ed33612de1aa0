// How much each delta of a round counts. Pure arithmetic on what is known of the deltas; no tensors.
//
// Deltas of one node follow each other, so that they add up to the node's progress: a node's deltas share one factor,
// its part of the round's tokens. (Two deltas in one round thus do not make a node count twice; its work does.) Then
// each delta's factor shrinks with the age of its base, and where the delta is longer than is usual.

import { ProtocolError } from "./errors.js";

/** Norms that the running median looks back on. */
export const NORM_HISTORY = 64;

export interface MergeInput {
  readonly nodeId: string;
  /** Undefined, or no number above 0: unknown. */
  readonly tokens: number | undefined;
  readonly norm: number;
  /** Versions between its base and the version that the round starts from. */
  readonly age: number;
}

export interface MergePolicy {
  readonly merge: "tokens" | "python";
  readonly stalenessDiscount: number;
  readonly clipFactor: number | null;
}

export interface Merge {
  /** One factor per delta, in the order given. */
  readonly weights: readonly number[];
  /** History for the next round, newest last. */
  readonly norms: readonly number[];
  /** Length above which deltas were shortened; undefined: none. */
  readonly clipNorm: number | undefined;
}

/** Factors of a round's deltas. Under `python` each file counts the same, whatever its node, age and length. */
export function mergeWeights(
  deltas: readonly MergeInput[],
  history: readonly number[],
  policy: MergePolicy,
): Merge {
  const isPython = policy.merge === "python";
  const clipNorm = isPython ? undefined : clipLimit(deltas, history, policy.clipFactor);
  const shares = isPython ? deltas.map(() => 1 / deltas.length) : tokenShares(deltas);
  const weights = deltas.map(({ norm, age }, i) => {
    if (isPython) return shares[i]!;
    const discount = policy.stalenessDiscount ** Math.max(age, 0);
    return shares[i]! * discount * clipScale(norm, clipNorm);
  });
  // Shortened ones enter as what they were shortened to, so that outliers do not become usual by being repeated.
  const norms = deltas.map(({ norm }) => Math.min(norm, clipNorm ?? norm));
  return { weights, norms: [...history, ...norms].slice(-NORM_HISTORY), clipNorm };
}

/**
 * Each node's part of all tokens, for each of its deltas. A delta that does not say counts as the median of those that
 * do; if none does, all nodes count the same.
 */
export function tokenShares(deltas: readonly Pick<MergeInput, "nodeId" | "tokens">[]): number[] {
  const known = deltas.map(({ tokens }) => tokens).filter(isKnown);
  const perNode = new Map<string, number>();
  for (const { nodeId, tokens } of deltas) {
    if (known.length === 0) perNode.set(nodeId, 1);
    else perNode.set(nodeId, (perNode.get(nodeId) ?? 0) + (isKnown(tokens) ? tokens : median(known)));
  }
  const total = [...perNode.values()].reduce((sum, tokens) => sum + tokens, 0);
  return deltas.map(({ nodeId }) => perNode.get(nodeId)! / total);
}

/** Momentum of the round that makes version `outerStep`: 0 for version 1, then in equal steps up to `mu`. */
export function momentumAt(outerStep: number, mu: number, warmupRounds: number): number {
  if (warmupRounds <= 0) return mu;
  return mu * Math.min(1, Math.max(0, outerStep - 1) / warmupRounds);
}

/** Half the values are at most this; of two middle ones the mean. */
export function median(values: readonly number[]): number {
  if (values.length === 0) throw new ProtocolError("invalid_setting", "no values have no median");
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

/** From the history and this round together; the lower of two middle ones, so that one of two cannot excuse itself. */
function clipLimit(
  deltas: readonly MergeInput[],
  history: readonly number[],
  clipFactor: number | null,
): number | undefined {
  if (clipFactor === null) return undefined;
  const norms = [...history, ...deltas.map(({ norm }) => norm)].sort((a, b) => a - b);
  return clipFactor * norms[(norms.length - 1) >> 1]!;
}

function clipScale(norm: number, clipNorm: number | undefined): number {
  return clipNorm === undefined || norm <= clipNorm ? 1 : clipNorm / norm;
}

function isKnown(tokens: number | undefined): tokens is number {
  return tokens !== undefined && Number.isFinite(tokens) && tokens > 0;
}
