// Turns what the operating system or a reader reports into a CheckpointError that says which file, what was
// expected and what to do. Knows no policy: whether a failure ends the run is the trainer's decision.

import { CheckpointError, SpeedtronicError } from "../util/errors.js";

/** The errno-style code of an error, or of what caused it. */
export function systemCode(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  if ("code" in error && typeof error.code === "string" && /^E[A-Z0-9]+$/.test(error.code)) return error.code;
  return systemCode(error.cause);
}

/** A save that failed because of the file system. Errors of ours pass through unchanged. */
export function saveFailure(error: unknown, path: string): SpeedtronicError {
  const code = systemCode(error);
  if (code === "ENOSPC" || code === "EDQUOT") return diskFull(path, code, error);
  if (error instanceof SpeedtronicError && code === undefined) return error;
  return new CheckpointError(
    `could not save the checkpoint ${path}: ${errorMessage(error)}; earlier checkpoints are untouched. Check that the folder ` +
      "exists, is writable and lies on a healthy disk",
    { code: "checkpoint.write_failed", details: { path, systemCode: code ?? null }, cause: error },
  );
}

/** A directory that cannot be used for checkpoints at all. */
export function directoryFailure(error: unknown, path: string): SpeedtronicError {
  const code = systemCode(error);
  if (error instanceof SpeedtronicError && code === undefined) return error;
  return new CheckpointError(
    `${path}: checkpoints cannot be written there (${errorMessage(error)}); check that the path is a writable ` +
      "folder, or choose another output folder",
    { code: "checkpoint.write_failed", details: { path, systemCode: code ?? null }, cause: error },
  );
}

function diskFull(path: string, code: string, cause: unknown): CheckpointError {
  return new CheckpointError(
    `could not save the checkpoint ${path}: the disk is full (${code}); the partial files were removed and ` +
      "earlier checkpoints are untouched. Free some space or lower checkpoint.keep_last",
    { code: "checkpoint.disk_full", details: { path, systemCode: code }, cause },
  );
}

/** A checkpoint on disk that is not what its manifest says. `message` names the file. */
export function corrupt(
  message: string,
  details: Readonly<Record<string, unknown>>,
  cause?: unknown,
): CheckpointError {
  return new CheckpointError(message, { code: "checkpoint.corrupt", details, cause });
}

export function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
