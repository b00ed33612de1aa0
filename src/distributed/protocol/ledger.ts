// What became of every delta, as published with each version. Content counts, not only the name: a file replaced
// under its old path is another delta.

import { parseDeltaPath } from "../wire/delta-path.js";
import { lifeOf } from "./numbers.js";

/** What a version decided about a delta. */
export type Fate =
  /** In the sum of its version, alone for its node. */
  | "applied"
  /** In the sum of its version, combined with others of its node. */
  | "merged"
  /** Based on a version too old. */
  | "stale"
  | "rejected";

export interface LedgerEntry {
  readonly path: string;
  readonly nodeId: string;
  /** SHA-256 of the file; null where it could not be read. */
  readonly sha256: string | null;
  /** The repository's own id of the content, so that a master recognises a file without reading it. */
  readonly contentId: string;
  readonly fate: Fate;
  /** The version that decided. */
  readonly outerStep: number;
  /** Its factor in that version's sum; 0 unless applied or merged. */
  readonly weight: number;
  /** Why it is not in the sum; empty otherwise. */
  readonly reason: string;
}

/** Each path and content once, oldest first. */
export interface Ledger {
  readonly entries: readonly LedgerEntry[];
  /**
   * By life of a node (see `lifeOf`): deltas with numbers up to this one are decided; entries of some of them are no
   * longer kept.
   */
  readonly decidedUpTo?: Readonly<Record<string, number>>;
}

export const EMPTY_LEDGER: Ledger = { entries: [] };

/** The entry for a file as its sender knows it. */
export function findBySha256(ledger: Ledger, path: string, sha256: string): LedgerEntry | undefined {
  return indexOf(ledger).bySha256.get(key(path, sha256));
}

/** The entry for a file as a listing shows it. */
export function findByContentId(ledger: Ledger, path: string, contentId: string): LedgerEntry | undefined {
  return indexOf(ledger).byContentId.get(key(path, contentId));
}

/** The entry whose delta, of this content under whatever path, is in a sum. */
export function findApplied(ledger: Ledger, sha256: string): LedgerEntry | undefined {
  return indexOf(ledger).applied.get(sha256);
}

/** An entry for the path whose file could not be read. */
export function findUnreadable(ledger: Ledger, path: string): LedgerEntry | undefined {
  return indexOf(ledger).unreadable.get(path);
}

/** Whether the delta was decided so long ago that its entry is gone. */
export function isLongDecided(ledger: Ledger, nodeId: string, number: number): boolean {
  const life = lifeOf(nodeId, number);
  const { decidedUpTo } = ledger;
  if (life === undefined || decidedUpTo === undefined || !Object.hasOwn(decidedUpTo, life)) return false;
  return number <= decidedUpTo[life]!;
}

/** The ledger with more entries; one for the same path and content replaces the older one. */
export function appendEntries(ledger: Ledger, added: readonly LedgerEntry[]): Ledger {
  const entries = new Map(ledger.entries.map((entry) => [key(entry.path, entry.contentId), entry]));
  for (const entry of added) {
    const name = key(entry.path, entry.contentId);
    entries.delete(name);
    entries.set(name, entry);
  }
  return { ...ledger, entries: [...entries.values()] };
}

export interface CompactionRules {
  /** Entries of versions up to this one may go. */
  readonly upTo: number;
  /** Newest listing, content ids by path. An entry whose path is in it stays, whatever its content. */
  readonly listed: ReadonlyMap<string, string>;
}

/**
 * The ledger without entries that nobody needs: old, and of files that are gone. What is left of those is a number per
 * life of a node, which keeps a delta from counting again when its sender, long offline, uploads it once more. Where
 * numbers are not ordered (Python), nothing is left.
 */
export function compactLedger(ledger: Ledger, { upTo, listed }: CompactionRules): Ledger {
  const undecided = smallestUndecided(ledger, listed);
  const decidedUpTo: Record<string, number> = { ...ledger.decidedUpTo };
  const entries = ledger.entries.filter((entry) => {
    if (entry.outerStep > upTo || listed.has(entry.path)) return true;
    const parsed = parseDeltaPath(entry.path);
    if (parsed.kind !== "delta") return false;
    const life = lifeOf(parsed.nodeId, parsed.localStep);
    if (life === undefined) return false;
    // The number that is left must not cover a delta which still waits for its round.
    if (parsed.localStep >= (undecided.get(life) ?? Number.POSITIVE_INFINITY)) return true;
    decidedUpTo[life] = Math.max(Object.hasOwn(decidedUpTo, life) ? decidedUpTo[life]! : 0, parsed.localStep);
    return false;
  });
  return Object.keys(decidedUpTo).length === 0 ? { entries } : { entries, decidedUpTo };
}

function smallestUndecided(ledger: Ledger, listed: ReadonlyMap<string, string>): Map<string, number> {
  const smallest = new Map<string, number>();
  for (const [path, contentId] of listed) {
    const parsed = parseDeltaPath(path);
    if (parsed.kind !== "delta" || findByContentId(ledger, path, contentId) !== undefined) continue;
    const life = lifeOf(parsed.nodeId, parsed.localStep);
    if (life === undefined) continue;
    smallest.set(life, Math.min(smallest.get(life) ?? Number.POSITIVE_INFINITY, parsed.localStep));
  }
  return smallest;
}

interface LedgerIndex {
  readonly byContentId: ReadonlyMap<string, LedgerEntry>;
  readonly bySha256: ReadonlyMap<string, LedgerEntry>;
  readonly applied: ReadonlyMap<string, LedgerEntry>;
  readonly unreadable: ReadonlyMap<string, LedgerEntry>;
}

const indexes = new WeakMap<Ledger, LedgerIndex>();

/** Ledgers never change, so that each is indexed once. */
function indexOf(ledger: Ledger): LedgerIndex {
  const known = indexes.get(ledger);
  if (known !== undefined) return known;
  const byContentId = new Map<string, LedgerEntry>();
  const bySha256 = new Map<string, LedgerEntry>();
  const applied = new Map<string, LedgerEntry>();
  const unreadable = new Map<string, LedgerEntry>();
  for (const entry of ledger.entries) {
    byContentId.set(key(entry.path, entry.contentId), entry);
    if (entry.sha256 === null) unreadable.set(entry.path, entry);
    else if (isInSum(entry)) {
      applied.set(entry.sha256, entry);
      bySha256.set(key(entry.path, entry.sha256), entry);
    } else if (!bySha256.has(key(entry.path, entry.sha256))) {
      bySha256.set(key(entry.path, entry.sha256), entry);
    }
  }
  const index = { byContentId, bySha256, applied, unreadable };
  indexes.set(ledger, index);
  return index;
}

export function isInSum({ fate }: Pick<LedgerEntry, "fate">): boolean {
  return fate === "applied" || fate === "merged";
}

function key(path: string, content: string): string {
  return `${path}\n${content}`;
}
