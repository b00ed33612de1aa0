// A directory of checkpoints as a reader sees it: what is there, in which order to try it for a resume, and how a
// path that a person typed leads to it. Order comes from manifests and pointer, never from names. Changes nothing.

import { readdir, stat } from "node:fs/promises";
import { basename, join, resolve } from "node:path";

import { CheckpointError } from "../util/errors.js";
import { errorMessage, systemCode } from "./failure.js";
import { isCheckpointFolderName, MANIFEST_FILE, POINTER_FILE } from "./file-names.js";
import { type CheckpointInfo, readInfo } from "./folder-reader.js";
import { readPointer } from "./pointer.js";

/** Something that looks like a checkpoint and was passed over. */
export interface Skipped {
  readonly path: string;
  readonly reason: string;
}

interface DirectoryScan {
  /** By step, then by order of saving, oldest first; runs of one step by time. */
  readonly infos: readonly CheckpointInfo[];
  /** Folders with a checkpoint's name whose manifest is missing, damaged or of a newer format. */
  readonly problems: readonly { readonly path: string; readonly error: CheckpointError }[];
  /** Names that are taken, by good checkpoints or by anything else. */
  readonly names: ReadonlySet<string>;
}

/** Reads all manifests. A directory that does not exist is an empty one. */
export async function scanDirectory(directory: string): Promise<DirectoryScan> {
  const entries = await readdir(directory, { withFileTypes: true }).catch((error: unknown) => {
    if (systemCode(error) === "ENOENT") return [];
    throw new CheckpointError(
      `${directory}: cannot list the checkpoints (${errorMessage(error)}); check the path`,
      {
        code: "checkpoint.unreadable",
        details: { path: directory },
        cause: error,
      },
    );
  });
  const named = entries.filter((entry) => isCheckpointFolderName(entry.name));
  // Links are not followed: what they name may lie outside of the directory.
  const folders = named.filter((entry) => entry.isDirectory());
  const infos: CheckpointInfo[] = [];
  const problems: { path: string; error: CheckpointError }[] = [];
  for (const { name } of folders) {
    const path = join(directory, name);
    try {
      infos.push(await readInfo(path));
    } catch (error) {
      if (!(error instanceof CheckpointError)) throw error;
      problems.push({ path, error });
    }
  }
  infos.sort(
    (a, b) =>
      a.step - b.step ||
      (a.runId === b.runId ? a.sequence - b.sequence : Date.parse(a.createdAt) - Date.parse(b.createdAt)),
  );
  return { infos, problems, names: new Set(named.map((entry) => entry.name)) };
}

/** Which checkpoints to try for a resume, best first, and what has been ruled out already. */
interface ResumeOrder {
  readonly candidates: readonly CheckpointInfo[];
  readonly skipped: readonly Skipped[];
  /** Whole checkpoints of other runs: never a fallback. */
  readonly otherRuns: readonly CheckpointInfo[];
}

/**
 * The run is the pointer's (without a usable pointer, that of the youngest checkpoint). Of it, in this order:
 * what was saved after the pointer moved last (its writer was killed just before moving it), the pointed-to one,
 * earlier ones of at most its step, and last those that a run which went back to an early step had left behind.
 */
async function resumeOrder(directory: string): Promise<ResumeOrder> {
  const { infos, problems } = await scanDirectory(directory);
  const newer = problems.find(({ error }) => error.code === "checkpoint.newer_format");
  if (newer !== undefined) throw newer.error;
  const skipped: Skipped[] = problems.map(({ path, error }) => ({ path, reason: error.message }));
  const { pointer, problem } = await readPointer(directory);
  const pointerPath = join(directory, POINTER_FILE);
  if (problem !== undefined) skipped.push({ path: pointerPath, reason: `the pointer ${problem}` });
  const pointed = infos.find((info) => info.name === pointer?.file);
  if (
    pointer !== undefined &&
    pointed === undefined &&
    !problems.some(({ path }) => path.endsWith(pointer.file))
  ) {
    skipped.push({ path: pointerPath, reason: `the pointer names ${pointer.file}, which does not exist` });
  }
  const youngest = [...infos].sort((a, b) => Date.parse(b.createdAt) - Date.parse(a.createdAt))[0];
  const runId = pointed?.runId ?? pointer?.runId ?? youngest?.runId;
  const sequence = pointed?.sequence ?? pointer?.sequence ?? Number.POSITIVE_INFINITY;
  const step = pointed?.step ?? pointer?.step ?? Number.POSITIVE_INFINITY;
  const rank = (info: CheckpointInfo) => {
    if (info.sequence > sequence) return 0;
    return info === pointed ? 1 : info.step <= step ? 2 : 3;
  };
  return {
    candidates: infos
      .filter((info) => info.runId === runId)
      .sort((a, b) => rank(a) - rank(b) || b.sequence - a.sequence),
    skipped,
    otherRuns: infos.filter((info) => info.runId !== runId),
  };
}

interface Found<T> {
  readonly value: T;
  readonly info: CheckpointInfo;
  readonly skipped: readonly Skipped[];
}

/**
 * The first candidate that `read` accepts. Undefined where there is nothing at all; if there are checkpoints but
 * none of the run is intact, that is an error, since starting afresh would bury them.
 */
export async function readNewestGood<T>(
  directory: string,
  read: (info: CheckpointInfo) => Promise<T>,
): Promise<Found<T> | undefined> {
  const { candidates, skipped: ruledOut, otherRuns } = await resumeOrder(directory);
  const skipped = [...ruledOut];
  for (const info of candidates) {
    try {
      return { value: await read(info), info, skipped };
    } catch (error) {
      if (!(error instanceof CheckpointError)) throw error;
      skipped.push({ path: info.path, reason: error.message });
    }
  }
  if (skipped.length === 0) return undefined;
  const hint =
    otherRuns.length === 0
      ? "Restore one from a backup, or start a new run in another output folder"
      : `Another run has intact-looking checkpoints here (${otherRuns.map((info) => info.name).join(", ")}); ` +
        "resume from one of them by giving its path";
  throw new CheckpointError(
    `${directory}: no intact checkpoint: ${skipped.map(({ reason }) => reason).join("; ")}. ${hint}`,
    { code: "checkpoint.none_intact", details: { path: directory, skipped } },
  );
}

/** What `path` names: one checkpoint, or a directory of them. A run's folder stands for its `checkpoints`. */
export async function locate(path: string): Promise<{ checkpoint: string } | { directory: string }> {
  const root = resolve(path);
  const found = await stat(root).catch(() => undefined);
  if (found === undefined) throw notFound(root, "does not exist; check the path");
  if (!found.isDirectory())
    throw notFound(root, "is not a folder; give the checkpoint's folder or the run's");
  for (const directory of [root, join(root, "checkpoints")]) {
    const names = await readdir(directory).catch((): string[] => []);
    if (names.includes(MANIFEST_FILE)) return { checkpoint: directory };
    if (names.includes(POINTER_FILE) || names.some(isCheckpointFolderName)) return { directory };
    // A checkpoint that lost its manifest: its reader says so.
    if (isCheckpointFolderName(basename(directory))) return { checkpoint: directory };
  }
  throw notFound(
    root,
    `holds no checkpoint: no ${MANIFEST_FILE}, no folder step-…, and none in checkpoints/`,
  );
}

function notFound(path: string, what: string): CheckpointError {
  return new CheckpointError(`${path} ${what}`, { code: "checkpoint.not_found", details: { path } });
}
