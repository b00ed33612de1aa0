// Every change the store makes on disk goes through this class, so that a crash test can stop a process before
// any single one of them. Adds durable folders and streaming hashes; knows nothing of checkpoints.

import { createHash, type Hash } from "node:crypto";
import {
  constants,
  copyFile,
  type FileHandle,
  link,
  open,
  readdir,
  rename,
  rmdir,
  statfs,
  unlink,
} from "node:fs/promises";
import { dirname, join } from "node:path";
import { makeFolders } from "../util/folders.node.js";

import { syncFolder } from "../util/platform.node.js";
import { systemCode } from "./failure.js";

export interface FileOperation {
  readonly kind: "mkdir" | "open" | "write" | "sync" | "close" | "rename" | "link" | "unlink" | "rmdir";
  readonly path: string;
}

export interface FileDigest {
  readonly sizeBytes: number;
  /** SHA-256, lower-case hexadecimal. */
  readonly sha256: string;
}

/** Small pieces are gathered up to this size; larger ones are written as they are. */
const GATHER_BYTES = 1 << 20;
/** Most bytes handed to one hash update or write, so that the event loop is never held for long. */
const SLICE_BYTES = 4 << 20;

/** What link(2) answers on file systems that have no hard links. */
const withoutLinks = new Set(["EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS"]);
const withoutFolderSync = new Set(["EINVAL", "ENOTSUP", "EOPNOTSUPP", "ENOSYS"]);

/** Takes bytes in order. A piece may be reused once its promise has settled. */
interface ByteSink {
  write(chunk: Uint8Array): Promise<void>;
}

export class Disk {
  readonly #before: (operation: FileOperation) => void;

  /** `before` is called ahead of each change; what it throws prevents the change. */
  constructor(before: (operation: FileOperation) => void = () => undefined) {
    this.#before = before;
  }

  /** Creates a folder and its missing parents, each recorded durably in its own parent. */
  async makeFolder(path: string): Promise<void> {
    this.#before({ kind: "mkdir", path });
    const first = makeFolders(path);
    if (first === undefined) return;
    for (let folder = path; folder.length >= first.length; folder = dirname(folder)) {
      await this.syncFolder(dirname(folder));
    }
  }

  /** Writes a new file (an existing one is an error), syncs it and returns its size and hash. */
  async writeFile(path: string, produce: (sink: ByteSink) => Promise<void>): Promise<FileDigest> {
    this.#before({ kind: "open", path });
    const handle = await open(path, "wx");
    try {
      const sink = new HashingSink(handle, () => this.#before({ kind: "write", path }));
      await produce(sink);
      const digest = await sink.finish();
      this.#before({ kind: "sync", path });
      await handle.sync();
      this.#before({ kind: "close", path });
      return digest;
    } finally {
      await handle.close();
    }
  }

  async writeText(path: string, text: string): Promise<FileDigest> {
    return this.writeFile(path, (sink) => sink.write(new TextEncoder().encode(text)));
  }

  async syncFolder(path: string): Promise<void> {
    this.#before({ kind: "sync", path });
    await syncFolder(path).catch((error: unknown) => {
      // Some network file systems cannot sync a folder; their server decides when a change is durable.
      if (!withoutFolderSync.has(systemCode(error) ?? "")) throw error;
    });
  }

  /** Renames within one folder and makes that durable. */
  async rename(from: string, to: string): Promise<void> {
    this.#before({ kind: "rename", path: to });
    await rename(from, to);
    await this.syncFolder(dirname(to));
  }

  /** Gives a file a second name (a copy where the file system has no links); false if that name is taken. */
  async linkExclusively(from: string, to: string): Promise<boolean> {
    this.#before({ kind: "link", path: to });
    try {
      await link(from, to);
      return true;
    } catch (error) {
      if (systemCode(error) === "EEXIST") return false;
      if (!withoutLinks.has(systemCode(error) ?? "")) throw error;
    }
    try {
      await copyFile(from, to, constants.COPYFILE_EXCL);
      return true;
    } catch (error) {
      if (systemCode(error) === "EEXIST") return false;
      throw error;
    }
  }

  async removeFile(path: string): Promise<void> {
    this.#before({ kind: "unlink", path });
    await unlink(path).catch(ignoreMissing);
  }

  /** Removes a file or a whole folder, one operation at a time. Links are removed, never followed. */
  async removeTree(path: string): Promise<void> {
    const entries = await readdir(path, { withFileTypes: true }).catch((error: unknown) => {
      if (systemCode(error) === "ENOTDIR") return undefined;
      ignoreMissing(error);
      return [];
    });
    if (entries === undefined) return this.removeFile(path);
    for (const entry of entries) {
      const child = join(path, entry.name);
      await (entry.isDirectory() ? this.removeTree(child) : this.removeFile(child));
    }
    this.#before({ kind: "rmdir", path });
    await rmdir(path).catch(ignoreMissing);
  }
}

/** Takes bytes in order, writes and hashes them. A piece may be reused once its promise has settled. */
class HashingSink {
  readonly #handle: FileHandle;
  readonly #beforeWrite: () => void;
  readonly #hash: Hash = createHash("sha256");
  readonly #gathered = Buffer.allocUnsafeSlow(GATHER_BYTES);
  #gatheredBytes = 0;
  #sizeBytes = 0;

  constructor(handle: FileHandle, beforeWrite: () => void) {
    this.#handle = handle;
    this.#beforeWrite = beforeWrite;
  }

  async write(chunk: Uint8Array): Promise<void> {
    if (chunk.byteLength > GATHER_BYTES - this.#gatheredBytes) await this.#flush();
    if (chunk.byteLength > GATHER_BYTES) {
      await this.#writeAll(chunk);
    } else {
      this.#gathered.set(chunk, this.#gatheredBytes);
      this.#gatheredBytes += chunk.byteLength;
    }
  }

  async finish(): Promise<FileDigest> {
    await this.#flush();
    return { sizeBytes: this.#sizeBytes, sha256: this.#hash.digest("hex") };
  }

  async #flush(): Promise<void> {
    const sizeBytes = this.#gatheredBytes;
    this.#gatheredBytes = 0;
    if (sizeBytes > 0) await this.#writeAll(this.#gathered.subarray(0, sizeBytes));
  }

  async #writeAll(bytes: Uint8Array): Promise<void> {
    for (let offset = 0; offset < bytes.byteLength; offset += SLICE_BYTES) {
      const slice = bytes.subarray(offset, offset + SLICE_BYTES);
      this.#beforeWrite();
      // The system writes while this thread hashes. A short write is no error: on a full disk the next reports it.
      const first = this.#handle.write(slice, 0, slice.byteLength);
      this.#hash.update(slice);
      let written = (await first).bytesWritten;
      while (written < slice.byteLength) {
        written += (await this.#handle.write(slice, written, slice.byteLength - written)).bytesWritten;
      }
      this.#sizeBytes += slice.byteLength;
    }
  }
}

/** Size and hash of a file, read in pieces. */
export async function digestFile(path: string): Promise<FileDigest> {
  const handle = await open(path, "r");
  try {
    const hash = createHash("sha256");
    const sliceBytes = Math.min(SLICE_BYTES, Math.max(1, (await handle.stat()).size));
    let [current, next] = [Buffer.allocUnsafeSlow(sliceBytes), Buffer.allocUnsafeSlow(sliceBytes)];
    let sizeBytes = 0;
    let { bytesRead } = await handle.read(current, 0, sliceBytes, 0);
    while (bytesRead > 0) {
      sizeBytes += bytesRead;
      // The system reads ahead while this thread hashes.
      const reading = handle.read(next, 0, sliceBytes, sizeBytes);
      hash.update(current.subarray(0, bytesRead));
      bytesRead = (await reading).bytesRead;
      [current, next] = [next, current];
    }
    return { sizeBytes, sha256: hash.digest("hex") };
  } finally {
    await handle.close();
  }
}

/** Bytes an ordinary user may still write where `folder` lies; undefined where the system does not say. */
export async function freeBytes(folder: string): Promise<number | undefined> {
  const info = await statfs(folder).catch(() => undefined);
  return info === undefined || info.blocks === 0 ? undefined : info.bavail * info.bsize;
}

function ignoreMissing(error: unknown): void {
  if (systemCode(error) !== "ENOENT") throw error;
}
