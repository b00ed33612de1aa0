// What a commit's operations make of a list of files. Pure: contents are known by their hashes already.

import { badRequest, HubError, tooLarge } from "../errors.js";
import type { Commit, FileEntry } from "./commit-record.js";

/** In the order of the request; later ones win over earlier ones on the same path. */
export type Change =
  | { readonly kind: "put"; readonly path: string; readonly entry: FileEntry }
  | { readonly kind: "delete"; readonly path: string }
  | { readonly kind: "delete-folder"; readonly path: string };

/** The files after `changes`, sorted by path. Throws HubError for a change that does not fit. */
export function applyChanges(
  base: Commit | undefined,
  changes: readonly Change[],
  maxFiles: number,
): Map<string, FileEntry> {
  const files = new Map<string, FileEntry>();
  for (const [path, entry] of base?.files ?? []) {
    files.set(path, entry.since === undefined && base !== undefined ? { ...entry, since: base.id } : entry);
  }
  for (const change of changes) {
    if (change.kind === "put") files.set(change.path, keepOrigin(files.get(change.path), change.entry));
    else if (change.kind === "delete") {
      if (!files.delete(change.path)) throw missing(change.path, "A file with this name doesn't exist");
    } else {
      const inside = [...files.keys()].filter((path) => path.startsWith(`${change.path}/`));
      if (inside.length === 0) throw missing(change.path, "A folder with this name doesn't exist");
      for (const path of inside) files.delete(path);
    }
  }
  if (files.size > maxFiles)
    throw tooLarge(`the commit would leave ${files.size} files; the limit is ${maxFiles}`);
  if (changes.some(({ kind }) => kind === "put")) refuseFilesAsFolders(files);
  return new Map([...files].sort(([a], [b]) => (a < b ? -1 : 1)));
}

function keepOrigin(before: FileEntry | undefined, after: FileEntry): FileEntry {
  return before !== undefined && before.gitOid === after.gitOid ? before : after;
}

function missing(path: string, text: string): HubError {
  return new HubError(404, "EntryNotFound", `${text}: ${JSON.stringify(path)}`);
}

/** `a` and `a/b` cannot both be files. */
function refuseFilesAsFolders(files: ReadonlyMap<string, FileEntry>): void {
  for (const path of files.keys()) {
    for (let at = path.indexOf("/"); at >= 0; at = path.indexOf("/", at + 1)) {
      const folder = path.slice(0, at);
      if (!files.has(folder)) continue;
      throw badRequest(`${JSON.stringify(path)} cannot be a file, since ${JSON.stringify(folder)} is one`);
    }
  }
}
