// Keeps two processes out of one checkpoint directory. Lock files are numbered; the highest number holds. A lock
// whose process has ended is taken over by creating the next number, which only one contender can do: nobody ever
// removes a lock that it has not outranked, so a slow contender cannot delete a live one. Not for shared reading.

import { randomBytes } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";

import { CheckpointError } from "../util/errors.js";
import type { Disk } from "./disk.js";
import { errorMessage, systemCode } from "./failure.js";
import { currentProcess, livenessOf, type ProcessIdentity } from "./process-identity.js";

export interface Lock {
  readonly path: string;
  /** Gives the directory free. Harmless when called twice. */
  release(): Promise<void>;
  isHeld(): Promise<boolean>;
  /** Throws CheckpointError `checkpoint.lock_lost` if somebody removed or replaced the lock file. */
  assertHeld(): Promise<void>;
}

interface LockContent extends ProcessIdentity {
  readonly token: string;
  readonly lockedAt: string;
}

const lockName = /^\.lock-([0-9]{1,9})$/;

/** Takes the lock of `directory` or throws CheckpointError `checkpoint.locked` naming the holder. */
export async function acquireLock(
  disk: Disk,
  directory: string,
  temporaryPath: () => string,
  now: () => Date,
): Promise<Lock> {
  const content: LockContent = {
    ...currentProcess(),
    token: randomBytes(8).toString("hex"),
    lockedAt: now().toISOString(),
  };
  // Linked, not created in place: a lock file is complete from its first moment on.
  const temporary = temporaryPath();
  await disk.writeText(temporary, `${JSON.stringify(content, null, 2)}\n`);
  try {
    for (;;) {
      const highest = (await lockNumbers(directory)).at(-1) ?? 0;
      if (highest > 0) await refuseIfHeld(lockPath(directory, highest));
      const path = lockPath(directory, highest + 1);
      if (!(await disk.linkExclusively(temporary, path))) continue;
      // Between the look and the link others may have come and gone: look again, now that we can be seen.
      const numbers = await lockNumbers(directory);
      const isHighest = numbers.at(-1) === highest + 1;
      try {
        for (const number of numbers.slice(0, -1)) await refuseIfHeld(lockPath(directory, number));
      } catch (error) {
        await disk.removeFile(path);
        throw error;
      }
      if (!isHighest) {
        await disk.removeFile(path);
        continue;
      }
      for (const number of numbers.slice(0, -1)) await disk.removeFile(lockPath(directory, number));
      return heldLock(disk, path, content.token);
    }
  } finally {
    await disk.removeFile(temporary);
  }
}

function heldLock(disk: Disk, path: string, token: string): Lock {
  let isReleased = false;
  const isOurs = async () => (await readLock(path))?.token === token;
  return {
    path,
    release: async () => {
      if (isReleased) return;
      isReleased = true;
      if (await isOurs()) await disk.removeFile(path);
    },
    isHeld: async () => !isReleased && (await isOurs()),
    assertHeld: async () => {
      if (!isReleased && (await isOurs())) return;
      throw new CheckpointError(
        `${path}: this process no longer holds the lock of its checkpoint directory (released, or the file was ` +
          "removed or replaced); another process may be writing there, so nothing more is saved",
        { code: "checkpoint.lock_lost", details: { path } },
      );
    },
  };
}

async function refuseIfHeld(path: string): Promise<void> {
  const holder = await readLock(path);
  // Gone in the meantime, or damaged by a power cut before its content was on disk: nobody's.
  if (holder === undefined) return;
  const liveness = livenessOf(holder);
  if (liveness === "dead") return;
  const who =
    holder.pid === process.pid && liveness === "alive" ? "this process itself" : `process ${holder.pid}`;
  throw new CheckpointError(
    liveness === "alive"
      ? `${path}: the checkpoint directory is in use by ${who} since ${holder.lockedAt}; wait for it, stop it, or ` +
          "choose another output folder"
      : `${path}: the checkpoint directory was locked at ${holder.lockedAt} by ${who} on ${holder.host}, where this ` +
          "process cannot look; if that one has ended, remove the lock file and start again",
    {
      code: "checkpoint.locked",
      details: { path, pid: holder.pid, host: holder.host, lockedAt: holder.lockedAt },
    },
  );
}

async function readLock(path: string): Promise<LockContent | undefined> {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (error) {
    if (systemCode(error) === "ENOENT") return undefined;
    throw new CheckpointError(
      `${path}: the lock file cannot be read (${errorMessage(error)}); check permissions`,
      {
        code: "checkpoint.locked",
        details: { path },
        cause: error,
      },
    );
  }
  try {
    const value = JSON.parse(text) as LockContent;
    return typeof value.pid === "number" && typeof value.token === "string" ? value : undefined;
  } catch {
    return undefined;
  }
}

function lockPath(directory: string, number: number): string {
  return join(directory, `.lock-${number}`);
}

/** Ascending. */
async function lockNumbers(directory: string): Promise<number[]> {
  const numbers = (await readdir(directory)).map((name) => Number(lockName.exec(name)?.[1] ?? Number.NaN));
  return numbers.filter(Number.isInteger).sort((a, b) => a - b);
}
