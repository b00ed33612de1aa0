// Makes folders level by level. Node's own recursive mkdir never returns on file systems that answer "no such file"
// for a name that cannot be made (such as /proc), and hides the real reason on read-only ones.

import { mkdirSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";

/**
 * Creates `path` and its missing parents. Returns the topmost folder that was made, or undefined when there was
 * nothing to do. Throws the system's error of the level that could not be made. Synchronous: a few system calls.
 */
export function makeFolders(path: string): string | undefined {
  const target = resolve(path);
  const made = tryMake(target);
  if (made !== "parent missing") return made ? target : undefined;
  const parent = dirname(target);
  const first = parent === target ? undefined : makeFolders(parent);
  // Once more, now that its parent is there; what fails this time is the real reason.
  mkdirOrThrow(target);
  return first ?? target;
}

/** Whether the folder was made (true), stood there already (false), or has no parent. */
function tryMake(path: string): boolean | "parent missing" {
  try {
    mkdirSync(path);
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // Where mkdir is refused for another reason, a folder that stands there is all that is wanted.
    if (isFolder(path)) return false;
    if (code === "ENOENT" && !isFolder(dirname(path))) return "parent missing";
    throw error;
  }
}

function mkdirOrThrow(path: string): void {
  try {
    mkdirSync(path);
  } catch (error) {
    if (!isFolder(path)) throw error;
  }
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}
