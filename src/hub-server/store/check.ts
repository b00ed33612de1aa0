// Reads a whole store and says what is wrong with it: every branch must point to a commit whose ancestors, files and
// contents are all there and undamaged. Reads only; may run beside a server.

import { createHash } from "node:crypto";
import { createReadStream, existsSync } from "node:fs";
import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { ConfigError } from "../../util/errors.js";
import { repoTypes } from "../repo-id.js";
import { BlobFolder } from "./blobs.js";
import { type Commit, decodeCommit } from "./commit-record.js";

export interface StoreReport {
  readonly repositories: number;
  readonly branches: number;
  readonly commits: number;
  readonly blobs: number;
  /** Empty for a sound store. */
  readonly problems: readonly string[];
}

/** `isThorough` also hashes every content; otherwise only the sizes are compared. */
export async function checkHubStore(root: string, isThorough = true): Promise<StoreReport> {
  if (!existsSync(join(root, "hub.json"))) {
    throw new ConfigError(`${root}: not a hub's folder (it has no hub.json)`, { code: "hub.no_store" });
  }
  const report = { repositories: 0, branches: 0, commits: 0, blobs: 0, problems: [] as string[] };
  for (const type of repoTypes) {
    const home = join(root, "repos", `${type}s`);
    for (const namespace of await readdir(home)) {
      for (const name of await readdir(join(home, namespace))) {
        report.repositories += 1;
        await checkRepository(join(home, namespace, name), isThorough, report);
      }
    }
  }
  return report;
}

type Counters = { -readonly [K in keyof StoreReport]: StoreReport[K] extends number ? number : string[] };

async function checkRepository(folder: string, isThorough: boolean, report: Counters): Promise<void> {
  const seen = new Set<string>();
  const contents = new Map<string, number>();
  for (const ref of (await readdir(join(folder, "refs"))).filter((name) => !name.startsWith("."))) {
    report.branches += 1;
    const head = (await readFile(join(folder, "refs", ref), "utf8")).trim();
    for (let id: string | null = head; id !== null && !seen.has(id); ) {
      seen.add(id);
      let commit: Commit;
      try {
        commit = decodeCommit(id, await readFile(join(folder, "commits", `${id}.json`), "utf8"));
      } catch (error) {
        report.problems.push(`${folder}: commit ${id} below ${ref}: ${(error as Error).message}`);
        break;
      }
      for (const { sha256, sizeBytes } of commit.files.values()) contents.set(sha256, sizeBytes);
      id = commit.parent;
    }
  }
  report.commits += seen.size;
  report.blobs += contents.size;
  const blobs = new BlobFolder(join(folder, "blobs"));
  for (const [sha256, sizeBytes] of contents) {
    const fault = await findBlobFault(blobs.pathOf(sha256), sha256, sizeBytes, isThorough);
    if (fault !== undefined) report.problems.push(`${folder}: content ${sha256} ${fault}`);
  }
}

async function findBlobFault(
  path: string,
  sha256: string,
  sizeBytes: number,
  isThorough: boolean,
): Promise<string | undefined> {
  try {
    const { size } = await stat(path);
    if (size !== sizeBytes) return `has ${size} of ${sizeBytes} bytes`;
    if (!isThorough) return undefined;
    const hash = createHash("sha256");
    for await (const chunk of createReadStream(path)) hash.update(chunk as Buffer);
    return hash.digest("hex") === sha256 ? undefined : "is damaged: its bytes have another hash";
  } catch (error) {
    return `cannot be read (${(error as Error).message})`;
  }
}
