// Compares the files of a checkpoint folder with its manifest: presence, size, SHA-256. Knows nothing of what they mean.

import { stat } from "node:fs/promises";
import { join } from "node:path";

import { CheckpointError } from "../util/errors.js";
import { digestFile, type FileDigest } from "./disk.js";
import { corrupt, errorMessage, systemCode } from "./failure.js";
import { CONTENT_FILES, type ContentFile, REQUIRED_FILES } from "./file-names.js";
import type { Manifest } from "./manifest.js";

interface Verifiable {
  readonly path: string;
  readonly manifest: Manifest;
}

/** Compares size and SHA-256 with the manifest: of all files, or of `only`. Throws CheckpointError for the first that differs. */
export async function verifyFiles(info: Verifiable, only?: readonly ContentFile[]): Promise<void> {
  const { files, kind } = info.manifest;
  for (const file of REQUIRED_FILES[kind]) if (files[file] === undefined) throw lacksFile(info, file);
  for (const file of only ?? CONTENT_FILES) {
    const expected = files[file];
    if (expected !== undefined) await verifyFile(join(info.path, file), expected);
  }
}

async function verifyFile(path: string, expected: FileDigest): Promise<void> {
  const needBytes = expected.sizeBytes;
  const haveBytes = await stat(path).then(
    (found) => found.size,
    (error: unknown) => {
      throw systemCode(error) === "ENOENT"
        ? corrupt(
            `${path}: the file is missing (its manifest lists it with ${needBytes} bytes)`,
            { path },
            error,
          )
        : unreadable(path, error);
    },
  );
  if (haveBytes !== needBytes) {
    throw corrupt(
      haveBytes < needBytes
        ? `${path}: file is truncated: have ${haveBytes} of ${needBytes} bytes`
        : `${path}: file is too long: have ${haveBytes} bytes, its manifest says ${needBytes}`,
      { path, expected: needBytes, found: haveBytes },
    );
  }
  const found = await digestFile(path).catch((error: unknown) => {
    throw unreadable(path, error);
  });
  if (found.sha256 !== expected.sha256) {
    throw corrupt(
      `${path}: the content was changed or damaged after it was written: SHA-256 is ${found.sha256}, its manifest ` +
        `says ${expected.sha256}`,
      { path, expected: expected.sha256, found: found.sha256 },
    );
  }
}

function lacksFile(info: Verifiable, file: string): CheckpointError {
  return corrupt(`${info.path}: the manifest lists no ${file}, which is needed here`, {
    path: info.path,
    missing: file,
  });
}

export function unreadable(path: string, error: unknown): CheckpointError {
  return new CheckpointError(
    `${path}: cannot be read (${errorMessage(error)}); check that it exists, and its permissions`,
    { code: "checkpoint.unreadable", details: { path, systemCode: systemCode(error) ?? null }, cause: error },
  );
}
