// The document about a node's own files, as text: what it still has to send, and the numbers that must never be used
// twice. Snake case on disk, checked when it is read.

import type { PendingDelta } from "../protocol/worker-contract.js";
import { parseDeltaPath } from "../wire/index.js";
import { NodeError } from "./errors.js";
import type { NodeRecord } from "./outbox.js";
import type { ProgressBook } from "./progress-book.js";

const FORMAT = 1;

export function encodeRecord(record: NodeRecord): string {
  return `${JSON.stringify(recordDocument(record), null, 2)}\n`;
}

/** The record as plain JSON, which also goes into checkpoints. */
export function recordDocument({ salt, lastTaken, progress, worker }: NodeRecord) {
  return {
    format: FORMAT,
    salt,
    last_taken: lastTaken,
    progress: { current: progress.current, taken_in: progress.takenIn },
    next_sequence: worker.nextSequence,
    installed: worker.installed ?? null,
    has_ledger: worker.hasLedger,
    local_step: worker.localStep,
    steps_since_snapshot: worker.stepsSinceSnapshot,
    tokens_since_snapshot: worker.tokensSinceSnapshot,
    pending: worker.pending
      .filter(({ stage }) => stage !== "taking")
      .map((delta) => ({
        sequence: delta.sequence,
        path: delta.path,
        base_outer_step: delta.baseOuterStep,
        local_step: delta.localStep,
        steps: delta.steps,
        tokens: delta.tokens,
        sha256: delta.sha256 ?? null,
        stage: delta.stage,
      })),
  };
}

/** @throws NodeError `node.state_folder` when the text is not such a document; `file` goes into the message. */
export function decodeRecord(text: string, file: string): NodeRecord {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    value = undefined;
  }
  return parseRecordDocument(value, file);
}

/** @throws NodeError `node.state_folder`. */
export function parseRecordDocument(value: unknown, file: string): NodeRecord {
  try {
    const document = asObject(value);
    if (document.format !== FORMAT) throw new Error(`format is ${JSON.stringify(document.format)}`);
    const { salt, pending } = document;
    if (typeof salt !== "string") throw new Error("salt is no text");
    if (!Array.isArray(pending)) throw new Error("pending is no list");
    return {
      salt,
      lastTaken: integer(document, "last_taken"),
      progress: decodeProgress(document.progress),
      worker: {
        nextSequence: integer(document, "next_sequence"),
        installed: document.installed === null ? undefined : integer(document, "installed"),
        hasLedger: document.has_ledger === true,
        localStep: integer(document, "local_step"),
        stepsSinceSnapshot: integer(document, "steps_since_snapshot"),
        tokensSinceSnapshot: integer(document, "tokens_since_snapshot"),
        pending: pending.map((entry) => decodePending(asObject(entry))),
      },
    };
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new NodeError(
      "state_folder",
      `${file}: is not the state of a node (${reason}); move it away to start with an empty one, which gives up what was not sent`,
      { details: { file }, cause },
    );
  }
}

function decodeProgress(value: unknown): ProgressBook {
  const { current, taken_in: takenIn } = asObject(value);
  const isEntry = (entry: unknown): entry is [number, number | null] =>
    Array.isArray(entry) &&
    Number.isSafeInteger(entry[0]) &&
    (entry[1] === null || Number.isSafeInteger(entry[1]));
  if (!Number.isSafeInteger(current) || !Array.isArray(takenIn) || !takenIn.every(isEntry))
    throw new Error("progress is no list of numbers");
  return { current: current as number, takenIn };
}

function decodePending(entry: Record<string, unknown>): PendingDelta {
  const { path, stage, sha256 } = entry;
  if (typeof path !== "string" || parseDeltaPath(path).kind !== "delta")
    throw new Error("path is no delta's");
  if (stage !== "queued" && stage !== "uploading" && stage !== "sent" && stage !== "taking")
    throw new Error(`stage is ${JSON.stringify(stage)}`);
  return {
    sequence: integer(entry, "sequence"),
    path,
    baseOuterStep: integer(entry, "base_outer_step", -1),
    localStep: integer(entry, "local_step"),
    steps: integer(entry, "steps"),
    tokens: integer(entry, "tokens"),
    sha256: typeof sha256 === "string" ? sha256 : undefined,
    stage,
  };
}

function integer(object: Record<string, unknown>, key: string, min = 0): number {
  const value = object[key];
  if (Number.isSafeInteger(value) && (value as number) >= min) return value as number;
  throw new Error(`${key} is ${JSON.stringify(value)}`);
}

function asObject(value: unknown): Record<string, unknown> {
  if (typeof value === "object" && value !== null && !Array.isArray(value))
    return value as Record<string, unknown>;
  throw new Error(`${JSON.stringify(value)?.slice(0, 40)} is no object`);
}
