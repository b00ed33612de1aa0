// Keeps two processes out of one checkpoint directory: the folder lock, with the store's own errors.

import { CheckpointError } from "../util/errors.js";
import { type FolderLock, type LockHolder, lockFolder } from "../util/folder-lock.node.js";
import type { Disk } from "./disk.js";
import { errorMessage } from "./failure.js";

export interface Lock extends FolderLock {
  /** Throws CheckpointError `checkpoint.lock_lost` if somebody removed or replaced the lock file. */
  assertHeld(): Promise<void>;
}

/** Takes the lock of `directory` or throws CheckpointError `checkpoint.locked` naming the holder. */
export async function acquireLock(
  disk: Disk,
  directory: string,
  temporaryPath: () => string,
  now: () => Date,
): Promise<Lock> {
  const lock = await lockFolder(directory, { disk, temporaryPath, now, heldError, unreadableError });
  const { path } = lock;
  return {
    ...lock,
    assertHeld: async () => {
      if (await lock.isHeld()) return;
      throw new CheckpointError(
        `${path}: this process no longer holds the lock of its checkpoint directory (released, or the file was ` +
          "removed or replaced); another process may be writing there, so nothing more is saved",
        { code: "checkpoint.lock_lost", details: { path } },
      );
    },
  };
}

function heldError({ path, pid, host, lockedAt, liveness, isThisProcess }: LockHolder): CheckpointError {
  const who = isThisProcess ? "this process itself" : `process ${pid}`;
  return new CheckpointError(
    liveness === "alive"
      ? `${path}: the checkpoint directory is in use by ${who} since ${lockedAt}; wait for it, stop it, or ` +
          "choose another output folder"
      : `${path}: the checkpoint directory was locked at ${lockedAt} by ${who} on ${host}, where this ` +
          "process cannot look; if that one has ended, remove the lock file and start again",
    { code: "checkpoint.locked", details: { path, pid, host, lockedAt } },
  );
}

function unreadableError(path: string, cause: unknown): CheckpointError {
  return new CheckpointError(
    `${path}: the lock file cannot be read (${errorMessage(cause)}); check permissions`,
    { code: "checkpoint.locked", details: { path }, cause },
  );
}
