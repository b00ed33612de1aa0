// Takes away what no branch leads to any more. Only for a repository in which nothing else is changing.

import { readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
/** What must stay. */
export interface Reachable {
  readonly commits: ReadonlySet<string>;
  /** By SHA-256. */
  readonly contents: ReadonlySet<string>;
}

/**
 * Removes the other commits, and the other contents that were last wanted before `olderThanMs`: a younger one may
 * belong to a commit that is about to come.
 */
export async function collectGarbage(
  folder: string,
  reachable: Reachable,
  olderThanMs: number,
): Promise<void> {
  for (const name of await readdir(join(folder, "commits"))) {
    const id = /^([0-9a-f]{40})\.json$/.exec(name)?.[1];
    if (id !== undefined && !reachable.commits.has(id))
      await rm(join(folder, "commits", name), { force: true });
  }
  for (const shelf of await readdir(join(folder, "blobs"))) {
    for (const sha256 of await readdir(join(folder, "blobs", shelf))) {
      const path = join(folder, "blobs", shelf, sha256);
      const isWanted = reachable.contents.has(sha256) || (await stat(path)).mtimeMs >= olderThanMs;
      if (!isWanted) await rm(path, { force: true });
    }
  }
}
