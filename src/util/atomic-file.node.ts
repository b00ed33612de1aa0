// Files that are either the old ones or the complete new ones, never something in between: written under a
// temporary name in the same folder, synced, renamed over the target, folder synced. Node only.
// Not a lock: two writers of one path both succeed and the last rename wins.

import { randomBytes } from "node:crypto";
import { type FileHandle, open, readdir, rename, rm, stat } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { SpeedtronicError } from "./errors.js";
import { makeFolders } from "./folders.node.js";
import { isProcessAlive, syncFolder } from "./platform.node.js";

/** Where a producer puts its bytes. A chunk may be reused by the caller once the promise has settled. */
export interface FileSink {
  /** Sets the file's size ahead of writing exactly that many bytes: some file systems then write faster. */
  reserve(sizeBytes: number): Promise<void>;
  write(chunk: Uint8Array): Promise<void>;
}

export interface AtomicWriteOptions {
  /** Sync the file and its folder (default true). False keeps atomicity but not durability. */
  durable?: boolean;
  /** Make missing parent folders (default false). They stay when the write fails. */
  createFolders?: boolean;
}

/** A file operation failed and the target is unchanged unless `details.renamed` is true. */
export class FileWriteError extends SpeedtronicError {
  readonly exitCode = 4;
  /** The file that was to be written. */
  readonly path: string;
  /** The operating system's code, such as `ENOSPC`. */
  readonly systemCode: string;

  constructor(path: string, cause: Error & { readonly code?: string | undefined }, renamed: boolean) {
    const systemCode = cause.code ?? "UNKNOWN";
    const isFull = systemCode === "ENOSPC" || systemCode === "EDQUOT";
    super(
      isFull
        ? `${path}: no space left on the disk (${systemCode}); free some space, then save again`
        : `${path}: cannot write the file (${cause.message}); check the folder and its permissions`,
      { code: isFull ? "file.no_space" : "file.write_failed", cause, details: { path, systemCode, renamed } },
    );
    this.path = path;
    this.systemCode = systemCode;
  }
}

/** One write call takes at most 2^31 - 1 bytes on every platform. */
const MAX_WRITE_BYTES = 2 ** 30;
/** Chunks below this are gathered, so that thousands of small tensors do not cost a system call each. */
const GATHER_BYTES = 2 ** 18;
const BUFFER_BYTES = 4 * GATHER_BYTES;
/** Keeps the temporary name within the 255 bytes that file systems allow, whatever the target's name. */
const MAX_KEPT_NAME = 48;
const TEMPORARY_NAME = /^\..+\.([0-9]+)-[0-9a-f]{16}\.tmp$/;

/**
 * Writes `path` atomically with whatever `produce` puts into the sink. If anything fails, the temporary file is
 * removed and `path` keeps its old content. Errors of the file system come as {@link FileWriteError}; other
 * errors of `produce` pass through unchanged.
 */
export async function writeStreamAtomically(
  path: string,
  produce: (sink: FileSink) => Promise<void>,
  options: AtomicWriteOptions = {},
): Promise<void> {
  const durable = options.durable ?? true;
  const folder = dirname(path);
  const temporary = join(folder, temporaryName(basename(path)));
  let handle: FileHandle | undefined;
  let isRenamed = false;
  try {
    if (options.createFolders === true) await createFolders(folder, durable);
    // "wx": a name that exists already is never taken over.
    handle = await open(temporary, "wx");
    const sink = new GatheringSink(handle);
    await produce(sink);
    await sink.flush();
    if (durable) await handle.sync();
    await handle.close();
    handle = undefined;
    await rename(temporary, path);
    isRenamed = true;
    if (durable) await syncFolder(folder);
  } catch (error) {
    await handle?.close().catch(() => undefined);
    if (!isRenamed) await rm(temporary, { force: true }).catch(() => undefined);
    throw isSystemError(error) ? new FileWriteError(path, error, isRenamed) : error;
  }
}

/** {@link writeStreamAtomically} for content that is at hand. Text is written as UTF-8. */
export async function writeFileAtomically(
  path: string,
  content: string | Uint8Array,
  options: AtomicWriteOptions = {},
): Promise<void> {
  const bytes = typeof content === "string" ? new TextEncoder().encode(content) : content;
  await writeStreamAtomically(path, (sink) => sink.write(bytes), options);
}

/**
 * Removes temporary files that killed processes left in `folder` (not in its subfolders) and returns their
 * names. A file of a process that still runs on this machine is kept. Call it only where one machine at a
 * time writes, since process ids of other machines mean nothing here.
 */
export async function sweepStaleTemporaries(folder: string): Promise<string[]> {
  const removed: string[] = [];
  for (const name of (await readdir(folder)).sort()) {
    const match = TEMPORARY_NAME.exec(name);
    if (match === null) continue;
    const file = join(folder, name);
    if (await isInUse(file, Number(match[1]))) continue;
    await rm(file, { force: true });
    removed.push(name);
  }
  return removed;
}

async function createFolders(folder: string, durable: boolean): Promise<void> {
  const firstMade = makeFolders(folder);
  if (firstMade === undefined || !durable) return;
  // Each new folder is an entry of its parent, which has to reach the disk as well.
  const top = dirname(resolve(firstMade));
  for (let parent = dirname(resolve(folder)); parent.startsWith(top); parent = dirname(parent)) {
    await syncFolder(parent);
    if (parent === top) break;
  }
}

function temporaryName(name: string): string {
  return `.${name.slice(0, MAX_KEPT_NAME)}.${process.pid}-${randomBytes(8).toString("hex")}.tmp`;
}

async function isInUse(file: string, pid: number): Promise<boolean> {
  if (pid !== process.pid) return isProcessAlive(pid);
  // Containers hand out the same small ids again: a file older than this process is an earlier one's.
  const startedMs = Date.now() - process.uptime() * 1000;
  const info = await stat(file).catch(() => undefined);
  return info !== undefined && info.mtimeMs >= startedMs;
}

function isSystemError(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && "syscall" in error && "code" in error && typeof error.code === "string";
}

class GatheringSink implements FileSink {
  readonly #handle: FileHandle;
  #gathered = new Uint8Array(0);
  #gatheredBytes = 0;

  constructor(handle: FileHandle) {
    this.#handle = handle;
  }

  async write(chunk: Uint8Array): Promise<void> {
    if (chunk.byteLength < GATHER_BYTES) {
      if (this.#gatheredBytes + chunk.byteLength > BUFFER_BYTES) await this.flush();
      if (this.#gathered.byteLength === 0) this.#gathered = new Uint8Array(BUFFER_BYTES);
      this.#gathered.set(chunk, this.#gatheredBytes);
      this.#gatheredBytes += chunk.byteLength;
      return;
    }
    await this.flush();
    await this.#writeAll(chunk);
  }

  async reserve(sizeBytes: number): Promise<void> {
    await this.#handle.truncate(sizeBytes);
  }

  async flush(): Promise<void> {
    const sizeBytes = this.#gatheredBytes;
    this.#gatheredBytes = 0;
    if (sizeBytes > 0) await this.#writeAll(this.#gathered.subarray(0, sizeBytes));
  }

  /** A write may be short without being an error, for example when a signal arrives. */
  async #writeAll(bytes: Uint8Array): Promise<void> {
    let offset = 0;
    while (offset < bytes.byteLength) {
      const length = Math.min(bytes.byteLength - offset, MAX_WRITE_BYTES);
      const { bytesWritten } = await this.#handle.write(bytes, offset, length);
      offset += bytesWritten;
    }
  }
}
