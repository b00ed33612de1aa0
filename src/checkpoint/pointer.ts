// `latest.json`: the small file that names the run's current checkpoint. It is a hint for people and for
// choosing the run, never trusted: a name that is not exactly a checkpoint folder's is reported and ignored.

import { readFile } from "node:fs/promises";
import { join } from "node:path";

import type { Disk } from "./disk.js";
import { errorMessage, systemCode } from "./failure.js";
import { isCheckpointFolderName, POINTER_FILE } from "./file-names.js";
import { encodeJson } from "./json-values.js";

interface Pointer {
  readonly step: number;
  /** Name of the folder, next to the pointer file. */
  readonly file: string;
  readonly runId: string;
  readonly sequence: number;
}

/** The pointer, or why it cannot be used; neither when there is none. */
interface PointerReading {
  readonly pointer?: Pointer;
  readonly problem?: string;
}

export async function readPointer(directory: string): Promise<PointerReading> {
  let text: string;
  try {
    text = await readFile(join(directory, POINTER_FILE), "utf8");
  } catch (error) {
    if (systemCode(error) === "ENOENT" || systemCode(error) === "ENOTDIR") return {};
    return { problem: `cannot be read: ${errorMessage(error)}` };
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return { problem: `is not valid JSON: ${errorMessage(error)}` };
  }
  const { step, file, runId, sequence } = (value ?? {}) as Record<string, unknown>;
  if (typeof file !== "string" || !isCheckpointFolderName(file)) {
    return { problem: `names ${JSON.stringify(file)}, which is not the name of a checkpoint folder` };
  }
  if (typeof step !== "number" || typeof sequence !== "number" || typeof runId !== "string") {
    return { problem: "lacks a valid step, sequence or runId" };
  }
  return { pointer: { step, file, runId, sequence } };
}

/** Replaces the pointer atomically. `temporary` is a free path in the same directory. */
export async function writePointer(
  disk: Disk,
  directory: string,
  pointer: Pointer,
  temporary: string,
): Promise<void> {
  await disk.writeText(temporary, encodeJson(pointer, "pointer"));
  await disk.rename(temporary, join(directory, POINTER_FILE));
}
