// Node only. A file of this machine as a source file. What can be wrong with it becomes a DataError with advice.

import { createHash } from "node:crypto";
import { open, stat } from "node:fs/promises";
import { DataError } from "../../util/errors.js";
import { defaultChunkBytes, type OpenFile, type SourceFile } from "./source-file.js";

/** Larger files are told apart by samples of their bytes: hashing them would delay a start by many seconds. */
const hashedWholeBytes = 2 ** 32;
const sampledChunks = 1024;

/** Throws DataError for what is missing or no regular file. */
export async function localFile(path: string): Promise<SourceFile> {
  let sizeBytes: number;
  try {
    const stats = await stat(path);
    if (!stats.isFile())
      throw new DataError(`"${path}" is ${stats.isDirectory() ? "a folder" : "not a regular file"}.`, {
        code: "data.not_a_file",
        details: { path },
      });
    sizeBytes = stats.size;
  } catch (cause) {
    throw cause instanceof DataError ? cause : unreadable(path, cause);
  }
  const file: SourceFile = {
    name: path,
    sizeBytes,
    contentHash: () => hashOf(file),
    open: () => openLocal(path, sizeBytes),
  };
  return file;
}

async function openLocal(path: string, sizeBytes: number): Promise<OpenFile> {
  const handle = await open(path, "r").catch((cause: unknown) => {
    throw unreadable(path, cause);
  });
  let closing: Promise<void> | undefined;
  return {
    sizeBytes,
    async read(start, end) {
      const bytes = new Uint8Array(end - start);
      for (let filled = 0; filled < bytes.length; ) {
        const { bytesRead } = await handle
          .read(bytes, filled, Math.min(bytes.length - filled, 2 ** 30), start + filled)
          .catch((cause: unknown) => {
            throw unreadable(path, cause);
          });
        if (bytesRead === 0) throw changed(path, start + filled);
        filled += bytesRead;
      }
      return bytes;
    },
    close() {
      closing ??= handle.close();
      return closing;
    },
  };
}

async function hashOf(file: SourceFile): Promise<string> {
  const hash = createHash("sha256");
  const open = await file.open();
  try {
    const isWhole = file.sizeBytes <= hashedWholeBytes;
    const count = isWhole ? Math.ceil(file.sizeBytes / defaultChunkBytes) : sampledChunks;
    const stride = isWhole ? defaultChunkBytes : (file.sizeBytes - defaultChunkBytes) / (sampledChunks - 1);
    for (let i = 0; i < count; i++) {
      const start = Math.floor(i * stride);
      hash.update(await open.read(start, Math.min(start + defaultChunkBytes, file.sizeBytes)));
    }
    if (!isWhole) hash.update(`${file.sizeBytes} bytes, sampled`);
  } finally {
    await open.close();
  }
  return hash.digest("hex");
}

function unreadable(path: string, cause: unknown): DataError {
  const { code, message } = cause as NodeJS.ErrnoException;
  const isMissing = code === "ENOENT" || code === "ENOTDIR";
  const advice =
    code === "EACCES" || code === "EPERM" ? "Check its permissions." : "Check the path and the disk.";
  return new DataError(
    isMissing
      ? `"${path}" does not exist. Relative paths start at the working directory.`
      : `"${path}" cannot be read: ${message}. ${advice}`,
    { code: isMissing ? "data.not_found" : "data.unreadable", details: { path }, cause },
  );
}

function changed(path: string, offset: number): DataError {
  return new DataError(
    `"${path}" became shorter while it was read: nothing at byte ${offset}. Do not change files that are read.`,
    { code: "data.file_changed", details: { path, offset } },
  );
}
