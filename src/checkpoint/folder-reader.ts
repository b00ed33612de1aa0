// Reads one checkpoint folder: manifest, then sizes and hashes of every file that is needed, then the content.
// Nothing is handed out before all of it is verified. Writes and deletes nothing.

import { readFile, stat } from "node:fs/promises";
import { basename, join } from "node:path";

import { CheckpointError, SpeedtronicError } from "../util/errors.js";
import type { CheckpointContent, TrainerState } from "./content.js";
import { digestFile, type FileDigest } from "./disk.js";
import { corrupt, errorMessage, systemCode } from "./failure.js";
import { decodeJson } from "./json-values.js";
import { type Manifest, parseManifest } from "./manifest.js";
import {
  CONFIG_FILE,
  CONTENT_FILES,
  type ContentFile,
  MANIFEST_FILE,
  MODEL_FILE,
  OPTIMIZER_FILE,
  TRAINER_FILE,
} from "./names.js";
import { readTensors } from "./tensor-file.js";

/** A checkpoint on disk as its manifest describes it. The other files have not been looked at. */
export interface CheckpointInfo {
  readonly path: string;
  /** Name of the folder. */
  readonly name: string;
  readonly runId: string;
  readonly step: number;
  readonly sequence: number;
  readonly createdAt: string;
  /** All files together, without the manifest. */
  readonly sizeBytes: number;
  readonly manifest: Manifest;
}

/** A model and what is needed to build it. */
export type ModelContent = Pick<CheckpointContent, "model" | "config" | "fingerprint" | "environment">;

export async function readInfo(path: string): Promise<CheckpointInfo> {
  const file = join(path, MANIFEST_FILE);
  let text: string;
  try {
    text = await readFile(file, "utf8");
  } catch (error) {
    if (systemCode(error) !== "ENOENT") throw unreadable(file, error);
    throw corrupt(
      `${path}: the folder has no ${MANIFEST_FILE}, so it is not a checkpoint or was never completed`,
      { path, missing: MANIFEST_FILE },
      error,
    );
  }
  const manifest = parseManifest(text, file);
  const { runId, step, sequence, createdAt, files } = manifest;
  const sizeBytes = Object.values(files).reduce((total, digest) => total + digest.sizeBytes, 0);
  return { path, name: basename(path), runId, step, sequence, createdAt, sizeBytes, manifest };
}

/** Compares size and SHA-256 of `files` with the manifest. Throws CheckpointError for the first that differs. */
export async function verifyFiles(
  info: CheckpointInfo,
  files: readonly ContentFile[] = CONTENT_FILES,
): Promise<void> {
  for (const file of files) {
    const expected = info.manifest.files[file];
    if (expected === undefined) throw lacksFile(info, file);
    await verifyFile(join(info.path, file), expected);
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

/** Verifies everything, then reads it. Refuses a folder that holds weights alone. */
export async function readContent(info: CheckpointInfo): Promise<CheckpointContent> {
  if (info.manifest.kind !== "training") {
    throw new CheckpointError(
      `${info.path}: the folder holds model weights alone, without optimizer and trainer state, so a run cannot be ` +
        "resumed from it; use it as initial weights or for generation",
      { code: "checkpoint.weights_only", details: { path: info.path } },
    );
  }
  await verifyFiles(info);
  return {
    ...(await readParts(info)),
    optimizer: await translated(join(info.path, OPTIMIZER_FILE), (path) => readTensors(path, {})),
    trainer: await readTrainer(info),
  };
}

/** Verifies and reads model and configuration only. */
export async function readModel(info: CheckpointInfo): Promise<ModelContent> {
  await verifyFiles(info, [MODEL_FILE, CONFIG_FILE]);
  return readParts(info);
}

async function readParts({ path, manifest }: CheckpointInfo): Promise<ModelContent> {
  const { aliases, fingerprint, environment } = manifest;
  return {
    model: await translated(join(path, MODEL_FILE), (file) => readTensors(file, aliases)),
    config: (await readJson(join(path, CONFIG_FILE))) as Record<string, unknown>,
    fingerprint,
    environment,
  };
}

async function readTrainer(info: CheckpointInfo): Promise<TrainerState> {
  const path = join(info.path, TRAINER_FILE);
  const trainer = (await readJson(path)) as TrainerState;
  if (trainer.step !== info.step) {
    throw corrupt(`${path}: step is ${trainer.step}, its manifest says ${info.step}`, {
      path,
      expected: info.step,
      found: trainer.step,
    });
  }
  return trainer;
}

async function readJson(path: string): Promise<unknown> {
  return translated(path, async () => decodeJson(await readFile(path, "utf8")));
}

/** Errors of files and of their parsers as ours. Others, such as a lack of memory, say nothing about the file. */
async function translated<T>(path: string, read: (path: string) => Promise<T>): Promise<T> {
  try {
    return await read(path);
  } catch (error) {
    if (error instanceof CheckpointError) throw error;
    if (error instanceof SpeedtronicError) throw corrupt(error.message, { path, ...error.details }, error);
    if (error instanceof SyntaxError)
      throw corrupt(`${path}: not valid JSON (${error.message})`, { path }, error);
    throw systemCode(error) === undefined ? error : unreadable(path, error);
  }
}

function lacksFile(info: CheckpointInfo, file: string): CheckpointError {
  return corrupt(`${info.path}: the manifest lists no ${file}, which is needed here`, {
    path: info.path,
    missing: file,
  });
}

function unreadable(path: string, error: unknown): CheckpointError {
  return new CheckpointError(
    `${path}: cannot be read (${errorMessage(error)}); check that it exists, and its permissions`,
    { code: "checkpoint.unreadable", details: { path, systemCode: systemCode(error) ?? null }, cause: error },
  );
}
