// Frees what nobody needs any more in a folder repository: records older than the kept ones, and contents that no kept
// commit names. Any number of processes may do it at the same time, beside writers and readers. Node only.
//
// Why a commit under way loses nothing: its record names contents younger than half of `keepMs` when it is linked
// (checked by the writer), a record in tmp/ of that age is removed first, and only then the commits are listed. So a
// commit that this listing does not show names no content older than `keepMs`, and younger ones are left alone.

import type { FolderHistory } from "./folder-history.node.js";
import { applyRecord, type FolderTree, hasTree, numberOfName, recordName } from "./folder-record.js";
import type { FolderStore } from "./folder-store.node.js";

export interface FolderRetention {
  /** Commits that are kept whatever their age: at least 16. */
  readonly keepCommits: number;
  /** For how long a revision and its files can be read after a newer one came. */
  readonly keepMs: number;
}

export interface Collected {
  readonly records: number;
  readonly blobs: number;
}

export async function collectFolder(
  store: FolderStore,
  history: FolderHistory,
  { keepCommits, keepMs }: FolderRetention,
): Promise<Collected> {
  const now = await store.now();
  for (const { name, mtimeMs } of await store.infos("tmp")) {
    if (mtimeMs < now - keepMs / 2) await store.remove("tmp", name);
  }
  const records = await store.infos("commits");
  const times = new Map<number, number>();
  for (const { name, mtimeMs } of records) {
    const number = numberOfName(name);
    if (number !== undefined) times.set(number, mtimeMs);
  }
  const numbers = [...times.keys()].sort((a, b) => a - b);
  const first = firstKept(numbers, times, keepCommits, now - keepMs);
  if (first === undefined) return { records: 0, blobs: 0 };

  const named = new Set<string>();
  let tree: FolderTree = new Map();
  for (const number of numbers.filter((one) => one >= first)) {
    const revision = await history.revisionAt(number);
    // Another process keeps less than this one and was faster: nothing can be said about what is named.
    if (revision === undefined) return { records: 0, blobs: 0 };
    const record = await history.record(revision);
    tree = record.tree ?? applyRecord(tree, record);
    for (const { blob } of [...tree.values(), ...record.puts.values()]) named.add(blob);
  }

  // In order: a missing record with a smaller number tells writers that time has passed them by.
  const old = numbers.filter((one) => one < first);
  for (const number of old) await store.remove("commits", recordName(number));

  let blobs = 0;
  for (const folder of await store.names("blobs")) {
    if (!/^[0-9a-f]{2}$/.test(folder)) continue;
    for (const { name, mtimeMs } of await store.infos("blobs", folder)) {
      if (named.has(name) || mtimeMs >= now - keepMs) continue;
      await store.remove("blobs", folder, name);
      blobs++;
    }
  }
  return { records: old.length, blobs };
}

/** The newest whole tree from which everything that is kept can be built. */
function firstKept(
  numbers: readonly number[],
  times: ReadonlyMap<number, number>,
  keepCommits: number,
  since: number,
): number | undefined {
  // A commit was the head until the next one was made: that one's age counts.
  const young = numbers.findIndex((number) => (times.get(number) ?? 0) >= since);
  const byAge = young < 0 ? numbers.length - 1 : Math.max(0, young - 1);
  const kept = numbers[Math.min(byAge, Math.max(0, numbers.length - keepCommits))];
  if (kept === undefined) return undefined;
  return numbers.filter((number) => number <= kept && hasTree(number)).at(-1);
}
