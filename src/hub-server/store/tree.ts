// A commit's flat list of files seen as folders: what lies in a folder, and a name for a folder's content.

import { createHash, type Hash } from "node:crypto";
import type { Commit, FileEntry } from "./commit-record.js";

export type TreeItem =
  | { readonly kind: "file"; readonly path: string; readonly entry: FileEntry }
  | { readonly kind: "directory"; readonly path: string; readonly oid: string };

/**
 * Items below `folder` (the empty string is the root), sorted by path; with `isRecursive` all, else one level.
 * Undefined if there is no such folder. A directory's `oid` depends on the names and contents in it, like git's but
 * not equal to it.
 */
export function listFolder(commit: Commit, folder: string, isRecursive: boolean): TreeItem[] | undefined {
  const prefix = folder === "" ? "" : `${folder}/`;
  const items: TreeItem[] = [];
  const directories = new Map<string, Hash>();
  for (const [path, entry] of commit.files) {
    if (!path.startsWith(prefix)) continue;
    const rest = path.slice(prefix.length);
    for (let at = rest.indexOf("/"); at >= 0; at = rest.indexOf("/", at + 1)) {
      const directory = prefix + rest.slice(0, at);
      let hash = directories.get(directory);
      if (hash === undefined) {
        hash = createHash("sha1");
        directories.set(directory, hash);
      }
      hash.update(`${path}\0${entry.gitOid}\n`);
      if (!isRecursive) break;
    }
    if (isRecursive || !rest.includes("/")) items.push({ kind: "file", path, entry });
  }
  for (const [path, hash] of directories) items.push({ kind: "directory", path, oid: hash.digest("hex") });
  if (items.length === 0 && folder !== "") return undefined;
  return items.sort((a, b) => (a.path < b.path ? -1 : 1));
}

/** The file or directory of exactly this path. */
export function findItem(commit: Commit, path: string): TreeItem | undefined {
  const entry = commit.files.get(path);
  if (entry !== undefined) return { kind: "file", path, entry };
  const hash = createHash("sha1");
  let isDirectory = false;
  for (const [inside, { gitOid }] of commit.files) {
    if (!inside.startsWith(`${path}/`)) continue;
    isDirectory = true;
    hash.update(`${inside}\0${gitOid}\n`);
  }
  return isDirectory ? { kind: "directory", path, oid: hash.digest("hex") } : undefined;
}
