// File contents by SHA-256: staged under a random name while they arrive, synced, and renamed to their hash. A blob
// that has its name is complete. Each repository has its own, so that knowing a hash opens nobody else's content.

import { createHash, type Hash, randomBytes } from "node:crypto";
import { type FileHandle, mkdir, open, rename, rm, stat, utimes } from "node:fs/promises";
import { dirname, join } from "node:path";
import { invariant } from "../../util/errors.js";
import { syncFolder } from "../../util/platform.node.js";
import { systemCode } from "../errors.js";
import { startGitBlobHash } from "./git-oid.js";

const BUFFER_BYTES = 2 ** 20;

export interface Digest {
  readonly sizeBytes: number;
  readonly sha256: string;
}

/** Complete, under its temporary name. */
export interface SealedFile {
  readonly file: StagedFile;
  readonly digest: Digest;
}

/** Several at a time, so that the file system can write its journal once for all of them. */
const PARALLEL_SYNCS = 8;

/** Makes contents durable (not their names): before they are published. */
export async function syncSealed(files: readonly SealedFile[]): Promise<void> {
  const queue = files.values();
  const work = async () => {
    for (const { file } of queue) {
      const handle = await open(file.path, "r+");
      try {
        await handle.sync();
      } finally {
        await handle.close();
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(PARALLEL_SYNCS, files.length) }, work));
}

/** A file on its way into the store. Ends with {@link StagedFile.discard} or by being published. */
export class StagedFile {
  readonly #path: string;
  readonly #handle: FileHandle;
  readonly #hash: Hash = createHash("sha256");
  readonly #buffer = Buffer.allocUnsafe(BUFFER_BYTES);
  #buffered = 0;
  #sizeBytes = 0;
  #isOpen = true;

  private constructor(path: string, handle: FileHandle) {
    this.#path = path;
    this.#handle = handle;
  }

  static async create(folder: string): Promise<StagedFile> {
    const path = join(folder, randomBytes(16).toString("hex"));
    return new StagedFile(path, await open(path, "wx"));
  }

  get path(): string {
    return this.#path;
  }

  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  async write(chunk: Uint8Array): Promise<void> {
    this.#sizeBytes += chunk.byteLength;
    this.#hash.update(chunk);
    let rest = chunk;
    while (rest.byteLength > 0) {
      const piece = rest.subarray(0, BUFFER_BYTES - this.#buffered);
      this.#buffer.set(piece, this.#buffered);
      this.#buffered += piece.byteLength;
      rest = rest.subarray(piece.byteLength);
      if (this.#buffered === BUFFER_BYTES) await this.#flush();
    }
  }

  /** No more is written. Not durable yet: see {@link syncSealed}. */
  async seal(): Promise<Digest> {
    await this.#flush();
    await this.#close();
    return { sizeBytes: this.#sizeBytes, sha256: this.#hash.digest("hex") };
  }

  async discard(): Promise<void> {
    await this.#close().catch(() => undefined);
    await rm(this.#path, { force: true });
  }

  async #flush(): Promise<void> {
    let offset = 0;
    while (offset < this.#buffered) {
      offset += (await this.#handle.write(this.#buffer, offset, this.#buffered - offset)).bytesWritten;
    }
    this.#buffered = 0;
  }

  async #close(): Promise<void> {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    await this.#handle.close();
  }
}

export class BlobFolder {
  readonly #root: string;

  constructor(root: string) {
    this.#root = root;
  }

  pathOf(sha256: string): string {
    invariant(/^[0-9a-f]{64}$/.test(sha256), "a blob is named by 64 hexadecimal digits");
    return join(this.#root, sha256.slice(0, 2), sha256);
  }

  /** Size in bytes, or undefined if there is no such blob. */
  async sizeOf(sha256: string): Promise<number | undefined> {
    try {
      return (await stat(this.pathOf(sha256))).size;
    } catch (error) {
      if (systemCode(error) === "ENOENT") return undefined;
      throw error;
    }
  }

  /** Marks a blob as wanted, so that a clean-up of unused ones passes it over for a while. */
  async touch(sha256: string): Promise<void> {
    const now = new Date();
    await utimes(this.pathOf(sha256), now, now).catch(() => undefined);
  }

  /** Gives sealed and synced files their names. A blob that is there already is replaced by the same bytes. */
  async publish(contents: readonly SealedFile[]): Promise<void> {
    const folders = new Set<string>();
    let hasNewFolder = false;
    for (const { file, digest } of contents) {
      const path = this.pathOf(digest.sha256);
      const folder = dirname(path);
      if (!folders.has(folder)) {
        folders.add(folder);
        hasNewFolder = (await makeFolder(folder)) || hasNewFolder;
      }
      await rename(file.path, path);
    }
    for (const folder of folders) await syncFolder(folder);
    if (hasNewFolder) await syncFolder(this.#root);
  }
}

/**
 * True if it was made. Not recursive: a repository that was deleted meanwhile must not come back as an empty folder.
 */
async function makeFolder(path: string): Promise<boolean> {
  try {
    await mkdir(path);
    return true;
  } catch (error) {
    if (systemCode(error) === "EEXIST") return false;
    throw error;
  }
}

/** git's SHA-1 of a file on the disk. */
export async function gitBlobOid(path: string, sizeBytes: number): Promise<string> {
  const hash = startGitBlobHash(sizeBytes);
  const handle = await open(path, "r");
  try {
    const buffer = Buffer.allocUnsafe(Math.min(BUFFER_BYTES, Math.max(1, sizeBytes)));
    for (;;) {
      const { bytesRead } = await handle.read(buffer, 0, buffer.byteLength);
      if (bytesRead === 0) return hash.digest("hex");
      hash.update(buffer.subarray(0, bytesRead));
    }
  } finally {
    await handle.close();
  }
}
