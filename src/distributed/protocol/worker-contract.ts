// What goes into and comes out of a training node's reducer (worker.ts). Tensors never pass through here: effects
// name them, whoever runs the effects has them.

import type { JsonValue } from "../wire/python-json.js";
import type { Ledger } from "./ledger.js";

/** A published version as a node sees it. */
export interface SeenVersion {
  readonly outerStep: number;
  /** Revision of the repository at which record, weights and ledger were read. */
  readonly revision: string;
  readonly modelFile: string;
  /** SHA-256 of the weights file; undefined under a Python master. */
  readonly modelSha256: string | undefined;
  /** Undefined under a Python master, which publishes none. */
  readonly ledger: Ledger | undefined;
  /** More keys of its record (leases of data): for whoever installs it. */
  readonly fields?: Readonly<Record<string, JsonValue>>;
}

/** One of this node's deltas that no version is known to contain. Survives restarts. */
export interface PendingDelta {
  /** Counts up over the whole life of a node, across restarts. */
  readonly sequence: number;
  readonly path: string;
  readonly baseOuterStep: number;
  readonly localStep: number;
  /** Local steps and tokens that it holds. */
  readonly steps: number;
  readonly tokens: number;
  /** SHA-256 of the file; known once it is taken. */
  readonly sha256: string | undefined;
  readonly stage: "taking" | "queued" | "uploading" | "sent";
}

export interface WorkerSettings {
  readonly nodeId: string;
  readonly innerSteps: number;
  /** Deltas that may wait to be sent; further progress stays in the model until there is room (it adds up). */
  readonly maxQueued: number;
  /** Deltas that may lie in the outbox in all, sent ones without a fate included. Default: 8 x `maxQueued`. */
  readonly maxPending?: number;
  /** A version this much above the installed one is not believed. Default: 1,000,000. */
  readonly maxVersionJump?: number;
  /** Makes the numbers in paths differ from those of other nodes and lives; kept for the life of a node. Default: "". */
  readonly salt?: string;
}

export interface WorkerState {
  readonly settings: WorkerSettings;
  readonly nextSequence: number;
  /** Newest version in the weights; undefined before the first. */
  readonly installed: number | undefined;
  /** Whether the master publishes a ledger, as far as seen. */
  readonly hasLedger: boolean;
  readonly localStep: number;
  /** Progress since the baseline was last moved. */
  readonly stepsSinceSnapshot: number;
  readonly tokensSinceSnapshot: number;
  /** In order of `sequence`. */
  readonly pending: readonly PendingDelta[];
  /** Newest version seen that is not installed. `failed`: fetching goes on with the next event that lets work go on. */
  readonly candidate:
    | { readonly version: SeenVersion; readonly stage: "fetching" | "ready" | "failed" }
    | undefined;
  /** Without a ledger: deltas up to this one must have been sent before the candidate is installed. */
  readonly flushUpTo: number | undefined;
  /**
   * Deltas are kept back: the node has no version yet, and has not been told that there is none. A node that stops installs
   * nothing any more: it keeps them back until it sees a version.
   */
  readonly isHolding: boolean;
  /** Sending ended with an error that repeating does not cure; a `retry` event tries again. */
  readonly isBlocked: boolean;
  /** Newest version that cannot be fetched, ever. */
  readonly refused: number | undefined;
  /** Last version number that was reported as older than what is known, or as absurd. */
  readonly reported: number | undefined;
  readonly isStopping: boolean;
}

/**
 * What survives a restart; a whole WorkerState will do. It speaks of weights, baseline and outbox of the same moment.
 * Whoever restores older weights than the newest delta of the outbox (a checkpoint from before it) starts from the
 * state of that delta with no progress, and with baseline := weights: what the delta holds must not be measured again.
 */
export type RestoredWorker = Pick<
  WorkerState,
  | "nextSequence"
  | "installed"
  | "hasLedger"
  | "localStep"
  | "stepsSinceSnapshot"
  | "tokensSinceSnapshot"
  | "pending"
>;

/**
 * Failed sends and fetches are asked for again in answer to the next `step`, `idle`, `retry` or `seen`; whoever runs
 * the effects waits as long as its back-off says.
 */
export type WorkerEvent =
  | { readonly type: "step"; readonly step: number; readonly tokens: number }
  /** No step is under way and none was made: at start, or while waiting. Here, too, a version may be installed. */
  | { readonly type: "idle" }
  /** Lets work go on that failed; also after a permanent failure. At any time; nothing is installed. */
  | { readonly type: "retry" }
  /** The repository was read and holds no version: deltas are sent without a base instead of being kept back. */
  | { readonly type: "absent" }
  | { readonly type: "seen"; readonly version: SeenVersion }
  | { readonly type: "fetched"; readonly outerStep: number }
  | {
      readonly type: "fetch_failed";
      readonly outerStep: number;
      readonly error: string;
      readonly isPermanent: boolean;
    }
  /** The snapshot is on disk. */
  | {
      readonly type: "taken";
      readonly sequence: number;
      readonly sha256: string;
      readonly isZero: boolean;
      readonly isFinite: boolean;
    }
  /** The snapshot could not be put on disk; its progress counts from the baseline before it. */
  | { readonly type: "take_failed"; readonly sequence: number }
  | { readonly type: "sent"; readonly sequence: number }
  | {
      readonly type: "send_failed";
      readonly sequence: number;
      readonly error: string;
      readonly isPermanent: boolean;
    }
  | { readonly type: "stop" };

/** To be run in this order. `snapshot` and `install` before the next local step, the others at leisure. */
export type WorkerEffect =
  /** Write float32(baseline) - float32(current) to the outbox, durably; then the baseline is the current weights. */
  | { readonly type: "snapshot"; readonly delta: PendingDelta }
  | { readonly type: "send"; readonly delta: PendingDelta }
  | { readonly type: "fetch"; readonly version: SeenVersion }
  /**
   * weights := G - sum of the deltas `keep` - (baseline - current); baseline := the same without the last term. Only
   * asked for in answer to a `step` or `idle` event, that is, between two local steps; before the next step it must be
   * done, and after the effects in front of it.
   */
  | { readonly type: "install"; readonly version: SeenVersion; readonly keep: readonly PendingDelta[] }
  /** Delete from the outbox: a version decided on it, or it holds nothing. */
  | { readonly type: "forget"; readonly delta: PendingDelta }
  /** For logs: name and payload of an event of the catalogue. */
  | { readonly type: "emit"; readonly event: string; readonly payload: Readonly<Record<string, unknown>> };

export interface WorkerStep {
  readonly state: WorkerState;
  readonly effects: readonly WorkerEffect[];
}
