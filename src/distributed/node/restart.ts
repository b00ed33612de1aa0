// Where a node goes on after a restart: from a checkpoint (weights of some step, and what was pending then) and from its
// own files, which may be many deltas ahead of it after a crash, or gone.

import type { RestoredWorker } from "../protocol/worker-contract.js";
import { parseRecordDocument, recordDocument } from "./node-record.js";
import type { NodeRecord } from "./outbox.js";

/** What a node puts into a checkpoint of the run that it belongs to. */
export interface NodeCheckpoint extends NodeRecord {
  /** File in the room `baselines`; null where it could not be written. */
  readonly baseline: string | null;
}

export interface RestartPlan {
  readonly salt: string;
  readonly lastTaken: number;
  readonly worker: RestoredWorker;
  /** File with the baseline; undefined: the weights of now are the baseline. */
  readonly baseline: string | undefined;
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
 * If a delta was taken after the checkpoint, the progress that the checkpoint's weights had since their baseline is in
 * it: sent again it would count twice, so that counting starts with the weights as they are.
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
      worker: { ...idle, localStep, nextSequence, pending, installed, hasLedger },
      baseline: undefined,
      isStateLost: checkpoint !== undefined,
    };
  }
  const { salt, lastTaken, worker } = record;
  const { nextSequence, pending, hasLedger } = worker;
  const kept = { nextSequence, pending, hasLedger };
  if (checkpoint === undefined) {
    return {
      salt,
      lastTaken,
      worker: { ...idle, ...kept, installed: undefined },
      baseline: undefined,
      isStateLost: false,
    };
  }
  const { installed, localStep } = checkpoint.worker;
  const isSameBaseline = lastTaken < checkpoint.worker.nextSequence && checkpoint.baseline !== null;
  return {
    salt,
    lastTaken,
    worker: isSameBaseline
      ? {
          ...checkpoint.worker,
          ...kept,
          nextSequence: Math.max(nextSequence, checkpoint.worker.nextSequence),
        }
      : { ...idle, ...kept, localStep, installed },
    baseline: isSameBaseline ? (checkpoint.baseline ?? undefined) : undefined,
    isStateLost: false,
  };
}
