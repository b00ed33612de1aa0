// Keeps two processes out of one folder. Lock files are numbered; the highest number holds. A lock whose process has
// ended is taken over by creating the next number, which only one contender can do: nobody ever removes a lock that it
// has not outranked, so a slow contender cannot delete a live one. Not for shared reading. Node only.

import { randomBytes } from "node:crypto";
import { constants, copyFile, link, readdir, readFile, unlink, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { currentProcess, type Liveness, livenessOf, type ProcessIdentity } from "./process-identity.node.js";

export interface FolderLock {
  readonly path: string;
  /** Gives the folder free. Harmless when called twice. */
  release(): Promise<void>;
  isHeld(): Promise<boolean>;
}

/** Who holds a lock, and whether that process still runs, as far as can be seen from here. */
export interface LockHolder {
  /** The lock file. */
  readonly path: string;
  readonly pid: number;
  readonly host: string;
  readonly lockedAt: string;
  readonly liveness: Exclude<Liveness, "dead">;
  readonly isThisProcess: boolean;
}

/** The changes that locking makes on disk. */
export interface LockDisk {
  writeText(path: string, text: string): Promise<unknown>;
  /** False if `to` is there already. */
  linkExclusively(from: string, to: string): Promise<boolean>;
  /** A missing file is no error. */
  removeFile(path: string): Promise<void>;
}

export interface FolderLockOptions {
  /** What to throw where another process holds the lock. */
  heldError(holder: LockHolder): Error;
  /** What to throw where a lock file cannot be read. */
  unreadableError(path: string, cause: unknown): Error;
  readonly disk?: LockDisk;
  /** A new path in the same folder. */
  readonly temporaryPath?: () => string;
  readonly now?: () => Date;
}

interface LockContent extends ProcessIdentity {
  readonly token: string;
  readonly lockedAt: string;
}

const lockName = /^\.lock-([0-9]{1,9})$/;
/** What link(2) answers on file systems that have no hard links. */
const withoutLinks = new Set(["EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS"]);

/** Takes the lock of `folder`, which must exist, or throws one of the errors of `options`. */
export async function lockFolder(folder: string, options: FolderLockOptions): Promise<FolderLock> {
  const { disk = plainDisk, now = () => new Date() } = options;
  const content: LockContent = {
    ...currentProcess(),
    token: randomBytes(8).toString("hex"),
    lockedAt: now().toISOString(),
  };
  // Linked, not created in place: a lock file is complete from its first moment on.
  const temporary = options.temporaryPath?.() ?? join(folder, `.lock.${process.pid}-${content.token}.tmp`);
  await disk.writeText(temporary, `${JSON.stringify(content, null, 2)}\n`);
  try {
    for (;;) {
      const highest = (await lockNumbers(folder)).at(-1) ?? 0;
      if (highest > 0) await refuseIfHeld(lockPath(folder, highest), options);
      const path = lockPath(folder, highest + 1);
      if (!(await disk.linkExclusively(temporary, path))) continue;
      // Between the look and the link others may have come and gone: look again, now that we can be seen.
      const numbers = await lockNumbers(folder);
      const isHighest = numbers.at(-1) === highest + 1;
      try {
        for (const number of numbers.slice(0, -1)) await refuseIfHeld(lockPath(folder, number), options);
      } catch (error) {
        await disk.removeFile(path);
        throw error;
      }
      if (!isHighest) {
        await disk.removeFile(path);
        continue;
      }
      for (const number of numbers.slice(0, -1)) await disk.removeFile(lockPath(folder, number));
      return heldLock(disk, path, content.token, options);
    }
  } finally {
    await disk.removeFile(temporary);
  }
}

function heldLock(disk: LockDisk, path: string, token: string, options: FolderLockOptions): FolderLock {
  let isReleased = false;
  const isOurs = async () => (await readLock(path, options))?.token === token;
  return {
    path,
    release: async () => {
      if (isReleased) return;
      isReleased = true;
      if (await isOurs()) await disk.removeFile(path);
    },
    isHeld: async () => !isReleased && (await isOurs()),
  };
}

async function refuseIfHeld(path: string, options: FolderLockOptions): Promise<void> {
  const holder = await readLock(path, options);
  // Gone in the meantime, or damaged by a power cut before its content was on disk: nobody's.
  if (holder === undefined) return;
  const liveness = livenessOf(holder);
  if (liveness === "dead") return;
  const { pid, host, lockedAt } = holder;
  const isThisProcess = pid === process.pid && liveness === "alive";
  throw options.heldError({ path, pid, host, lockedAt, liveness, isThisProcess });
}

async function readLock(path: string, options: FolderLockOptions): Promise<LockContent | undefined> {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw options.unreadableError(path, error);
  }
  try {
    const value = JSON.parse(text) as LockContent;
    return typeof value.pid === "number" && typeof value.token === "string" ? value : undefined;
  } catch {
    return undefined;
  }
}

function lockPath(folder: string, number: number): string {
  return join(folder, `.lock-${number}`);
}

/** Ascending. */
async function lockNumbers(folder: string): Promise<number[]> {
  const numbers = (await readdir(folder)).map((name) => Number(lockName.exec(name)?.[1] ?? Number.NaN));
  return numbers.filter(Number.isInteger).sort((a, b) => a - b);
}

const plainDisk: LockDisk = {
  writeText: (path, text) => writeFile(path, text, { flag: "wx" }),
  linkExclusively: async (from, to) => {
    try {
      await link(from, to);
      return true;
    } catch (error) {
      const code = (error as NodeJS.ErrnoException).code ?? "";
      if (code === "EEXIST") return false;
      if (!withoutLinks.has(code)) throw error;
    }
    try {
      await copyFile(from, to, constants.COPYFILE_EXCL);
      return true;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
      throw error;
    }
  },
  removeFile: async (path) => {
    try {
      await unlink(path);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    }
  },
};
