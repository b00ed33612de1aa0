// Node only. Opens one file as a row of bytes, exactly as they lie on disk: no decoding, no newline
// translation. Small files are held in memory; larger ones are read by range through one file handle, so
// that memory stays bounded. Every way in which a path can be wrong becomes a DataError with advice.

import { createHash } from "node:crypto";
import type { Stats } from "node:fs";
import { type FileHandle, open, stat } from "node:fs/promises";
import { resolve } from "node:path";
import { DataError } from "../../util/errors.js";
import type { TokenSource } from "../token-source.js";

export interface TextFileOptions {
  path: string;
  /** Files up to this size are read at once and kept. */
  memoryLimitBytes: number;
}

function refuseOther(path: string, stats: Stats): void {
  if (stats.isFile()) return;
  const kind = stats.isDirectory() ? "a folder" : "not a regular file";
  throw new DataError(
    `data.text_path "${path}" is ${kind}. Name one text file; join several into one first.`,
    {
      code: "data.not_a_file",
      details: { path },
    },
  );
}

/** Throws DataError for a path that is missing, no regular file, not readable or empty. */
export async function openTextFile(options: TextFileOptions): Promise<TokenSource> {
  const { path } = options;
  let handle: FileHandle;
  try {
    // Looked at before it is opened: opening a named pipe waits for somebody to write.
    refuseOther(path, await stat(path));
    handle = await open(path, "r");
  } catch (cause) {
    throw cause instanceof DataError ? cause : openError(path, cause);
  }
  let isKept = false;
  try {
    const stats = await handle.stat();
    refuseOther(path, stats);
    if (stats.size === 0) {
      throw new DataError(`data.text_path "${path}" is empty (0 bytes). Name a file with text in it.`, {
        code: "data.empty",
        details: { path, sizeBytes: 0 },
      });
    }
    if (stats.size <= options.memoryLimitBytes) return await readWhole(handle, path, stats.size);
    const ranged = await openRanged(handle, path, stats.size);
    isKept = true;
    return ranged;
  } finally {
    if (!isKept) await handle.close();
  }
}

async function readWhole(handle: FileHandle, path: string, sizeBytes: number): Promise<TokenSource> {
  const bytes = await readRange(handle, path, 0, sizeBytes);
  const fingerprint = { sizeBytes, sha256: createHash("sha256").update(bytes).digest("hex") };
  return {
    length: sizeBytes,
    read: (start, end) => bytes.subarray(start, end),
    describe: () => fingerprint,
    close: async () => {},
  };
}

const sampledChunks = 64;
const sampledChunkBytes = 2 ** 16;

// Hashing tens of gigabytes would delay the start by minutes: evenly spaced chunks tell texts apart as well.
async function openRanged(handle: FileHandle, path: string, sizeBytes: number): Promise<TokenSource> {
  const hash = createHash("sha256");
  const lastStart = Math.max(0, sizeBytes - sampledChunkBytes);
  for (let i = 0; i < sampledChunks; i++) {
    const start = Math.floor((lastStart * i) / (sampledChunks - 1));
    hash.update(await readRange(handle, path, start, Math.min(start + sampledChunkBytes, sizeBytes)));
  }
  const fingerprint = { sizeBytes, sampledSha256: hash.digest("hex") };
  let closing: Promise<void> | undefined;
  return {
    length: sizeBytes,
    read: (start, end) => readRange(handle, path, start, end),
    describe: () => fingerprint,
    close: () => {
      closing ??= handle.close();
      return closing;
    },
  };
}

async function readRange(handle: FileHandle, path: string, start: number, end: number): Promise<Uint8Array> {
  const bytes = new Uint8Array(end - start);
  let filled = 0;
  while (filled < bytes.length) {
    let bytesRead: number;
    try {
      // One read call takes less than 2 GiB.
      const length = Math.min(bytes.length - filled, 2 ** 30);
      ({ bytesRead } = await handle.read(bytes, filled, length, start + filled));
    } catch (cause) {
      throw new DataError(
        `Reading data.text_path "${path}" failed at byte ${start + filled}: ${messageOf(cause)}. ` +
          "Check the disk or the mount.",
        { code: "data.unreadable", details: { path, offset: start + filled }, cause },
      );
    }
    if (bytesRead === 0) {
      throw new DataError(
        `data.text_path "${path}" became shorter while it was read: nothing at byte ${start + filled}. ` +
          "Do not change the file during training.",
        { code: "data.file_changed", details: { path, offset: start + filled } },
      );
    }
    filled += bytesRead;
  }
  return bytes;
}

function openError(path: string, cause: unknown): DataError {
  const code = (cause as NodeJS.ErrnoException).code;
  if (code === "ENOENT" || code === "ENOTDIR") {
    return new DataError(
      `data.text_path "${path}" does not exist (looked for ${resolve(path)}). ` +
        "Relative paths start at the working directory.",
      { code: "data.not_found", details: { path }, cause },
    );
  }
  const advice =
    code === "EACCES" || code === "EPERM" ? "Check its permissions." : "Check the path and the disk.";
  return new DataError(`data.text_path "${path}" cannot be opened: ${messageOf(cause)}. ${advice}`, {
    code: "data.unreadable",
    details: { path },
    cause,
  });
}

function messageOf(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}
