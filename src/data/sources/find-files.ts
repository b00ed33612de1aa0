// Node only. Turns paths and patterns into the files of this machine that they mean, in an order that does not depend on
// the file system: as listed, the matches of a pattern sorted by code units.

import type { Dirent } from "node:fs";
import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { DataError } from "../../util/errors.js";
import { isPattern, patternRoot, patternToRegExp } from "./glob.js";
import { localFile } from "./local-file.js";
import type { SourceFile } from "./source-file.js";

/** Throws DataError for a path that does not exist, and for a pattern or a folder without a file. */
export async function findFiles(path: string): Promise<SourceFile[]> {
  // A file may be named like a pattern.
  const isThere = await stat(path).then(
    () => true,
    () => false,
  );
  if (isThere || !isPattern(path)) return [await localFile(path)];
  const normal = path.replaceAll("\\", "/").replace(/^(?:\.\/)+/, "");
  const root = patternRoot(normal);
  const matches = patternToRegExp(normal);
  const found: string[] = [];
  const top = root === "" ? (normal.startsWith("/") ? "/" : ".") : root;
  for await (const file of filesBelow(top, depthOf(normal, root))) if (matches.test(file)) found.push(file);
  if (found.length === 0)
    throw new DataError(
      `No file matches "${path}". Relative patterns start at the working directory; ** stands for any folders.`,
      { code: "data.not_found", details: { path } },
    );
  return Promise.all(found.sort().map(localFile));
}

/** How many folders deep a match can lie. */
function depthOf(pattern: string, root: string): number {
  if (pattern.includes("**")) return Number.POSITIVE_INFINITY;
  const names = pattern.split("/").length - (root === "" ? 0 : root.split("/").length);
  return names - 1;
}

/** Paths begin with `folder`, unless that is the working directory. Links to folders are not followed. */
async function* filesBelow(folder: string, depth: number): AsyncGenerator<string, void, undefined> {
  let entries: Dirent[];
  try {
    entries = await readdir(folder, { withFileTypes: true });
  } catch {
    return;
  }
  for (const entry of entries) {
    const path = folder === "." ? entry.name : join(folder, entry.name).replaceAll("\\", "/");
    if (entry.isDirectory()) {
      if (depth > 0) yield* filesBelow(path, depth - 1);
    } else if (entry.isFile() || (entry.isSymbolicLink() && (await isFile(path)))) yield path;
  }
}

async function isFile(path: string): Promise<boolean> {
  return stat(path).then(
    (stats) => stats.isFile(),
    () => false,
  );
}
