// Who takes part in a run, as far as paths, headers and the ledger tell.

import { isInSum, type LedgerEntry } from "../protocol/ledger.js";
import type { ListedDelta } from "../protocol/master-contract.js";
import { lifeOf } from "../protocol/numbers.js";
import { compareCodePoints } from "../wire/order.js";
import type { DeltaFacts } from "./run-report-headers.js";

export interface ReportedDelta {
  readonly path: string;
  readonly nodeId: string;
  readonly number: number;
  readonly sizeBytes: number;
  /** Undefined where the header cannot be read, or was not. */
  readonly facts: DeltaFacts | undefined;
  /** What a version decided; undefined while it waits, and under a master without a ledger. */
  readonly fate: LedgerEntry | undefined;
}

export interface Member {
  readonly nodeId: string;
  /** The newest one that is still in the repository. */
  readonly lastDelta: ReportedDelta | undefined;
  /** Versions between the base of its last delta and the newest one. */
  readonly staleness: number | undefined;
  readonly pending: number;
  /** Entries of the ledger that are in a sum, of the versions that it still knows. */
  readonly applied: number;
  readonly shards: number | undefined;
}

/** A node that lost its state begins to count anew: its newest delta is the newest of one of its lives. */
export function newestPerLife(listed: readonly ListedDelta[]): ListedDelta[] {
  const newest = new Map<string, ListedDelta>();
  for (const delta of listed) {
    const life = lifeOf(delta.nodeId, delta.number) ?? delta.nodeId;
    const known = newest.get(life);
    if (known === undefined || delta.number > known.number) newest.set(life, delta);
  }
  return [...newest.values()];
}

interface MemberParts {
  /** Newest of each life. */
  readonly newest: readonly ReportedDelta[];
  readonly pending: readonly ReportedDelta[];
  /** Newest first. */
  readonly fates: readonly LedgerEntry[];
  readonly shards: ReadonlyMap<string, number> | undefined;
  readonly outerStep: number | undefined;
}

export function membersOf({ newest, pending, fates, shards, outerStep }: MemberParts): Member[] {
  const last = new Map<string, ReportedDelta>();
  for (const delta of newest) {
    const known = last.get(delta.nodeId);
    if (known === undefined || isNewer(delta, known)) last.set(delta.nodeId, delta);
  }
  const names = new Set([...last.keys(), ...fates.map(({ nodeId }) => nodeId), ...(shards?.keys() ?? [])]);
  return [...names].sort(compareCodePoints).map((nodeId): Member => {
    const lastDelta = last.get(nodeId);
    const base = lastDelta?.facts?.baseOuterStep;
    const isOwn = (item: { readonly nodeId: string }) => item.nodeId === nodeId;
    return {
      nodeId,
      lastDelta,
      staleness: base === undefined || base < 0 || outerStep === undefined ? undefined : outerStep - base,
      pending: pending.filter(isOwn).length,
      applied: fates.filter((entry) => isOwn(entry) && isInSum(entry)).length,
      shards: shards && (shards.get(nodeId) ?? 0),
    };
  });
}

function isNewer(a: ReportedDelta, b: ReportedDelta): boolean {
  const [baseA, baseB] = [a.facts?.baseOuterStep ?? -1, b.facts?.baseOuterStep ?? -1];
  return baseA === baseB ? a.number > b.number : baseA > baseB;
}
