// Where a node goes on after a restart: from a checkpoint (weights of some step, and what was pending then) and from its
// own files, which may be many deltas ahead of it after a crash, or gone.

import type { RestoredWorker } from "../protocol/worker-contract.js";
import { parseRecordDocument, recordDocument } from "./node-record.js";
import type { NodeRecord } from "./outbox.js";
import { beginProgress, continueProgress, findProgress, type ProgressBook } from "./progress-book.js";

/** What a node puts into a checkpoint of the run that it belongs to. */
export interface NodeCheckpoint extends NodeRecord {
  /** File in the room `baselines`; null where it could not be written. */
  readonly baseline: string | null;
}

export interface RestartPlan {
  readonly salt: string;
  readonly lastTaken: number;
  readonly progress: ProgressBook;
  readonly worker: RestoredWorker;
  /** File with the baseline; undefined: the weights of now are the baseline. */
  readonly baseline: string | undefined;
  /** Sequence of the delta that has what the checkpoint's weights had learned since their baseline. */
  readonly takenIn: number | undefined;
  /** The checkpoint speaks of files that are not there: what they held reaches nobody. */
  readonly isStateLost: boolean;
}

export function checkpointDocument({ baseline, ...record }: NodeCheckpoint) {
  return { ...recordDocument(record), baseline };
}

/** @throws NodeError `node.state_folder`. */
export function parseCheckpoint(value: unknown): NodeCheckpoint {
  const record = parseRecordDocument(value, "the checkpoint's part about training together");
  const { baseline } = value as { readonly baseline?: unknown };
  return { ...record, baseline: typeof baseline === "string" ? baseline : null };
}

/**
 * The files decide what is pending and which numbers are used; the checkpoint decides which version the weights have.
 * If a delta has the progress that the checkpoint's weights had since their baseline, sent again it would count twice, so
 * that counting starts with the weights as they are.
 */
export function planRestart(
  record: NodeRecord | undefined,
  checkpoint: NodeCheckpoint | undefined,
  newSalt: () => string,
): RestartPlan {
  const idle = { localStep: 0, stepsSinceSnapshot: 0, tokensSinceSnapshot: 0 };
  if (record === undefined || (checkpoint !== undefined && record.salt !== checkpoint.salt)) {
    const { nextSequence = 1, pending = [] } = record?.worker ?? {};
    const { installed, hasLedger = false, localStep = 0 } = checkpoint?.worker ?? {};
    return {
      salt: record?.salt ?? newSalt(),
      lastTaken: record?.lastTaken ?? 0,
      progress: beginProgress(record?.progress),
      worker: { ...idle, localStep, nextSequence, pending, installed, hasLedger },
      baseline: undefined,
      takenIn: undefined,
      isStateLost: checkpoint !== undefined,
    };
  }
  const { salt, lastTaken, progress, worker } = record;
  const { nextSequence, pending, hasLedger } = worker;
  const kept = { nextSequence, pending, hasLedger };
  if (checkpoint === undefined) {
    return {
      salt,
      lastTaken,
      progress: beginProgress(progress),
      worker: { ...idle, ...kept, installed: undefined },
      baseline: undefined,
      takenIn: undefined,
      isStateLost: false,
    };
  }
  const { installed, localStep } = checkpoint.worker;
  const { current } = checkpoint.progress;
  const place = findProgress(progress, current);
  const isSameBaseline = place === "open" && checkpoint.baseline !== null;
  return {
    salt,
    lastTaken,
    progress: isSameBaseline ? continueProgress(progress, current) : beginProgress(progress),
    worker: isSameBaseline
      ? {
          ...checkpoint.worker,
          ...kept,
          nextSequence: Math.max(nextSequence, checkpoint.worker.nextSequence),
        }
      : { ...idle, ...kept, localStep, installed },
    baseline: isSameBaseline ? (checkpoint.baseline ?? undefined) : undefined,
    takenIn: typeof place === "number" ? place : undefined,
    isStateLost: false,
  };
}

/** Whether the node would have something to send if it started now and made no step. */
export function hasUnsent(record: NodeRecord | undefined, checkpoint: NodeCheckpoint | undefined): boolean {
  const { worker } = planRestart(record, checkpoint, () => "");
  return worker.stepsSinceSnapshot > 0 || worker.pending.some(({ stage }) => stage !== "sent");
}
