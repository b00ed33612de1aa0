// All repositories below one folder. One process at a time serves a folder: a lock file says which.
//
//   root/hub.json           format of the store
//   root/upload-key         signs upload addresses; 0600
//   root/staging/           contents that are arriving; emptied at start
//   root/trash/             deleted repositories on their way out; emptied at start
//   root/repos/models/NAMESPACE/NAME/{repo.json, refs/, commits/, blobs/}

import { randomBytes } from "node:crypto";
import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { Disk } from "../../checkpoint/disk.js";
import { acquireLock, type Lock } from "../../checkpoint/lock.js";
import { writeFileAtomically } from "../../util/atomic-file.node.js";
import { CheckpointError, ConfigError } from "../../util/errors.js";
import { syncFolder } from "../../util/platform.node.js";
import { HubError, systemCode } from "../errors.js";
import { formatRepoId, type RepoId, repoFolder, repoKey, repoTypes } from "../repo-id.js";
import { StagedFile } from "./blobs.js";
import { type RepoInfo, Repository, type RepositoryOptions } from "./repository.js";

export class HubStore {
  /** 32 secret bytes that stay the same over restarts. */
  readonly uploadKey: Buffer;
  readonly #root: string;
  readonly #lock: Lock;
  readonly #options: RepositoryOptions;
  readonly #open = new Map<string, Repository>();

  private constructor(root: string, lock: Lock, uploadKey: Buffer, options: RepositoryOptions) {
    this.#root = root;
    this.#lock = lock;
    this.uploadKey = uploadKey;
    this.#options = options;
  }

  /** Makes the folder if needed. Throws ConfigError if another process serves it or it holds something else. */
  static async open(root: string, options: RepositoryOptions): Promise<HubStore> {
    await makeRoot(root);
    const lock = await lockRoot(root, options.now);
    try {
      await checkFormat(root);
      for (const name of ["staging", "trash"]) {
        await rm(join(root, name), { recursive: true, force: true });
        await mkdir(join(root, name));
      }
      for (const type of repoTypes) await mkdir(join(root, "repos", `${type}s`), { recursive: true });
      const store = new HubStore(root, lock, await readUploadKey(root), options);
      for (const repo of await store.list()) await repo.sweep();
      return store;
    } catch (error) {
      await lock.release();
      throw error;
    }
  }

  async close(): Promise<void> {
    await this.#lock.release();
  }

  stage(): Promise<StagedFile> {
    return StagedFile.create(join(this.#root, "staging"));
  }

  async find(id: RepoId): Promise<Repository | undefined> {
    const key = repoKey(id);
    const open = this.#open.get(key);
    if (open !== undefined) return open;
    const info = await readInfo(this.#folderOf(id));
    if (info === undefined) return undefined;
    // Another request may have been quicker: there must be one object, since it holds the mutex.
    const repo = this.#open.get(key) ?? new Repository(this.#folderOf(id), info, this.#options);
    this.#open.set(key, repo);
    return repo;
  }

  /** HubError 409 `Conflict` if the name is taken. The repository appears with its first commit or not at all. */
  async create(id: RepoId, isPrivate: boolean, author: string): Promise<Repository> {
    const taken = () =>
      new HubError(409, "Conflict", `You already created this ${id.type} repo: ${formatRepoId(id)}`);
    if ((await this.find(id)) !== undefined) throw taken();
    const info: RepoInfo = {
      uid: randomBytes(12).toString("hex"),
      id,
      isPrivate,
      createdAt: this.#options.now().toISOString(),
    };
    const draft = join(this.#root, "staging", `repo-${info.uid}`);
    const target = this.#folderOf(id);
    try {
      for (const name of ["refs", "commits", "blobs"]) await mkdir(join(draft, name), { recursive: true });
      await writeFileAtomically(
        join(draft, "repo.json"),
        `${JSON.stringify({ format: 1, ...info }, null, 2)}\n`,
      );
      await new Repository(draft, info, this.#options).initialise(author);
      await mkdir(dirname(target), { recursive: true });
      await syncFolder(dirname(dirname(target)));
      // Onto a folder that is not empty a rename fails: of two that create at once, one wins.
      await rename(draft, target);
      await syncFolder(dirname(target));
    } catch (error) {
      await rm(draft, { recursive: true, force: true });
      if (!["ENOTEMPTY", "EEXIST", "EPERM"].includes(systemCode(error) ?? "")) throw error;
      if ((await readInfo(target)) === undefined) throw error;
      throw taken();
    }
    return (await this.find(id))!;
  }

  async delete(repo: Repository): Promise<void> {
    const { id, uid } = repo.info;
    const grave = join(this.#root, "trash", uid);
    await repo.retire(async () => {
      await rename(this.#folderOf(id), grave);
      this.#open.delete(repoKey(id));
      await syncFolder(dirname(this.#folderOf(id)));
    });
    await rm(grave, { recursive: true, force: true });
  }

  async list(): Promise<Repository[]> {
    const found: Repository[] = [];
    for (const type of repoTypes) {
      const home = join(this.#root, "repos", `${type}s`);
      for (const namespace of (await readdir(home)).sort()) {
        for (const name of (await readdir(join(home, namespace))).sort()) {
          const info = await readInfo(join(home, namespace, name));
          const repo = info === undefined ? undefined : await this.find(info.id);
          if (repo !== undefined) found.push(repo);
        }
      }
    }
    return found;
  }

  #folderOf(id: RepoId): string {
    return join(this.#root, "repos", ...repoFolder(id));
  }
}

async function lockRoot(root: string, now: () => Date): Promise<Lock> {
  try {
    return await acquireLock(
      new Disk(),
      root,
      () => join(root, `.tmp-${randomBytes(8).toString("hex")}`),
      now,
    );
  } catch (error) {
    if (!(error instanceof CheckpointError) || error.code !== "checkpoint.locked") throw error;
    const { pid, host, path } = error.details;
    throw new ConfigError(
      `${root}: another server serves this folder (process ${pid} on ${host}); stop it or choose another --root. ` +
        `If that process has ended, remove ${path}`,
      { code: "hub.root_in_use", details: error.details, cause: error },
    );
  }
}

async function makeRoot(root: string): Promise<void> {
  await mkdir(root, { recursive: true }).catch((cause: Error) => {
    throw new ConfigError(
      `${root}: cannot be made the hub's folder (${cause.message}); name a folder that exists or can be made`,
      { code: "hub.root", cause },
    );
  });
}

/** Refuses to settle in a folder that holds other things. */
async function checkFormat(root: string): Promise<void> {
  const path = join(root, "hub.json");
  const text = await readFile(path, "utf8").catch((error: unknown) => {
    if (systemCode(error) === "ENOENT") return undefined;
    throw error;
  });
  if (text === undefined) {
    const others = (await readdir(root)).filter((name) => !name.startsWith("."));
    if (others.length > 0) {
      throw new ConfigError(
        `${root}: holds other files (${others[0]}) and no hub.json; choose an empty folder`,
        {
          code: "hub.root_not_empty",
        },
      );
    }
    await writeFileAtomically(path, `${JSON.stringify({ format: 1 })}\n`);
    return;
  }
  const format = (JSON.parse(text) as { format?: unknown }).format;
  if (format !== 1) {
    throw new ConfigError(`${path}: format ${String(format)} is unknown; this version serves format 1`, {
      code: "hub.unknown_format",
    });
  }
}

async function readUploadKey(root: string): Promise<Buffer> {
  const path = join(root, "upload-key");
  const text = await readFile(path, "utf8").catch(() => undefined);
  if (text !== undefined && /^[0-9a-f]{64}\n$/.test(text)) return Buffer.from(text.trim(), "hex");
  const key = randomBytes(32);
  await rm(path, { force: true });
  await writeFile(path, `${key.toString("hex")}\n`, { mode: 0o600, flag: "wx" });
  return key;
}

async function readInfo(folder: string): Promise<RepoInfo | undefined> {
  try {
    const { uid, id, isPrivate, createdAt } = JSON.parse(
      await readFile(join(folder, "repo.json"), "utf8"),
    ) as RepoInfo;
    return { uid, id, isPrivate, createdAt };
  } catch (error) {
    if (systemCode(error) === "ENOENT" || systemCode(error) === "ENOTDIR") return undefined;
    throw error;
  }
}
