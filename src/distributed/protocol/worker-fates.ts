// What a published ledger says about a node's own deltas: which of them a version has decided on, and which stay part
// of the node's weights.

import { parseDeltaPath } from "../wire/delta-path.js";
import { findBySha256, findUnreadable, isLongDecided, type Ledger } from "./ledger.js";
import type { PendingDelta } from "./worker-contract.js";

export interface DecidedDelta {
  readonly delta: PendingDelta;
  /** Of the event `delta_decided`. */
  readonly payload: Readonly<Record<string, unknown>>;
}

/**
 * Splits deltas by the ledger. A file of other content under a delta's path says nothing about the delta; one that
 * could not be read was ours, if ours was sent.
 */
export function judge(
  pending: readonly PendingDelta[],
  ledger: Ledger,
): { readonly keep: readonly PendingDelta[]; readonly decided: readonly DecidedDelta[] } {
  const keep: PendingDelta[] = [];
  const decided: DecidedDelta[] = [];
  for (const delta of pending) {
    const payload = fateOf(delta, ledger);
    if (payload === undefined) keep.push(delta);
    else decided.push({ delta, payload: { path: delta.path, steps: delta.steps, ...payload } });
  }
  return { keep, decided };
}

function fateOf({ path, sha256, stage }: PendingDelta, ledger: Ledger): Record<string, unknown> | undefined {
  if (sha256 === undefined) return undefined;
  const entry =
    findBySha256(ledger, path, sha256) ?? (stage === "sent" ? findUnreadable(ledger, path) : undefined);
  if (entry !== undefined) {
    const { fate, outerStep, weight, reason } = entry;
    return { fate, outer_step: outerStep, weight, reason };
  }
  const parsed = parseDeltaPath(path);
  if (parsed.kind !== "delta" || !isLongDecided(ledger, parsed.nodeId, parsed.localStep)) return undefined;
  return { fate: "unknown", reason: "decided so long ago that the ledger has no entry any more" };
}
