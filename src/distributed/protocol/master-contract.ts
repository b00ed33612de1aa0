// What goes into and comes out of the reducer that runs the outer loop (master.ts). Tensors never pass through here.

import type { Ledger, LedgerEntry } from "./ledger.js";

/** A delta as the listing shows it. */
export interface ListedDelta {
  readonly path: string;
  readonly nodeId: string;
  /** The number in the path. */
  readonly number: number;
  readonly sizeBytes: number;
  readonly contentId: string;
}

/** What was found in a delta's file. */
export type Inspection =
  | {
      readonly ok: true;
      readonly sha256: string;
      readonly baseOuterStep: number;
      readonly localStep: number | undefined;
      /** Undefined where a peer does not say (Python). */
      readonly tokens: number | undefined;
      readonly steps: number | undefined;
      readonly norm: number;
      readonly isZero: boolean;
      /** What its node says about its data (shard-report.ts); undefined where it says nothing. */
      readonly shards?: string | undefined;
    }
  /** Will never be good: remembered, reported once. */
  | { readonly ok: false; readonly reason: string; readonly sha256: string | undefined };

export interface MergeSettings {
  readonly outerLr: number;
  readonly outerMomentum: number;
  /** Rounds over which the momentum grows from 0 to its value; 0 switches the warm-up off. */
  readonly momentumWarmupRounds: number;
  /** `tokens`: weighted by work done, per node first; `python`: each file counts the same. */
  readonly merge: "tokens" | "python";
  /** Deltas whose base is older than this many versions are stale. */
  readonly stalenessLimit: number;
  /** Weight is multiplied by this for each version of age. 1: no discount. */
  readonly stalenessDiscount: number;
  /** Deltas longer than this many times the running median of norms are shortened to it; null: never. */
  readonly clipFactor: number | null;
  /** Nodes that must have sent something before a round starts; null: as many as took part in the last rounds. */
  readonly quorum: number | null;
  /** Milliseconds after the first new delta at which a round starts without the quorum. */
  readonly graceMs: number;
  /** Versions for which consumed deltas and old weights stay in the repository. */
  readonly keepVersions: number;
}

export interface RoundDelta {
  readonly path: string;
  readonly nodeId: string;
  readonly contentId: string;
  readonly sha256: string;
  /** Factor of this delta in the sum; weights and clipping are in it. */
  readonly weight: number;
  /** As inspected. */
  readonly shards?: string | undefined;
}

/** A round that is decided: everything that the publication holds follows from it and the tensors. */
export interface RoundPlan {
  readonly outerStep: number;
  readonly parentOuterStep: number;
  /** In the order in which they are added up. Undefined weights under `python`: the plain mean. */
  readonly deltas: readonly RoundDelta[];
  readonly usesPlainMean: boolean;
  readonly lr: number;
  readonly mu: number;
  /** The ledger that belongs to the new version. */
  readonly ledger: Ledger;
  readonly decided: readonly LedgerEntry[];
  /** Files to delete in the same commit. */
  readonly deletions: readonly string[];
  /** Norms that belong to the new version, for the running median: publish them for the next master. */
  readonly norms: readonly number[];
}

/** Fates of refused deltas that are told without a new version. */
export interface FatesPlan {
  /** The version whose ledger they go into. */
  readonly outerStep: number;
  readonly ledger: Ledger;
  readonly decided: readonly LedgerEntry[];
}

export interface MasterState {
  readonly settings: MergeSettings;
  /** Newest published version; undefined before the bootstrap. */
  readonly outerStep: number | undefined;
  readonly ledger: Ledger;
  /** By path: what is known of files that no version has decided on. */
  readonly known: ReadonlyMap<
    string,
    {
      readonly listed: ListedDelta;
      readonly inspection: Inspection | "waiting" | "failed";
      readonly seenAtMs: number;
    }
  >;
  /** Newest time that an event told. */
  readonly nowMs: number;
  /** The last listing: content ids by path. */
  readonly listed: ReadonlyMap<string, string>;
  /** Of those the ones whose turn to be looked into has not come (turns.ts): another listing asks for them. */
  readonly deferred: readonly ListedDelta[];
  /** Norms of the newest applied deltas, for the running median. */
  readonly norms: readonly number[];
  readonly publishing: RoundPlan | undefined;
  readonly publishingFates: FatesPlan | undefined;
  /** When that failed last: it is tried again as long after as it waited before. */
  readonly fatesFailedAtMs: number | undefined;
  readonly isDraining: boolean;
}

export type MasterEvent =
  | { readonly type: "listed"; readonly nowMs: number; readonly deltas: readonly ListedDelta[] }
  | {
      readonly type: "inspected";
      readonly path: string;
      readonly contentId: string;
      readonly inspection: Inspection;
    }
  /** Reading failed for now. The next listing asks again. */
  | {
      readonly type: "inspection_failed";
      readonly path: string;
      readonly contentId: string;
      readonly error: string;
    }
  | { readonly type: "tick"; readonly nowMs: number }
  /** The plan's version is published; without a plan, the bootstrap. */
  | { readonly type: "published"; readonly outerStep: number }
  /** Nothing was published; the state is as before the round. */
  | { readonly type: "publish_failed"; readonly error: string }
  | { readonly type: "fates_published" }
  | { readonly type: "fates_failed"; readonly error: string }
  /** The last round: whatever is there counts, without a quorum. */
  | { readonly type: "drain" };

export type MasterEffect =
  | { readonly type: "inspect"; readonly delta: ListedDelta }
  | { readonly type: "publish"; readonly plan: RoundPlan }
  | { readonly type: "publish_fates"; readonly plan: FatesPlan }
  | { readonly type: "emit"; readonly event: string; readonly payload: Readonly<Record<string, unknown>> };

export interface MasterStep {
  readonly state: MasterState;
  readonly effects: readonly MasterEffect[];
}

/** What a master starts from: all of it is in the repository. */
export interface MasterStart {
  readonly outerStep: number | undefined;
  readonly ledger: Ledger;
  readonly norms: readonly number[];
}
