// Errors of this folder: files that are not what Python Speedtronic writes.

import { CheckpointError } from "../../util/errors.js";

/** What about the file cannot be used. `CheckpointError.code` is this with the prefix `python_checkpoint.`. */
export type PythonCheckpointProblem =
  | "not_a_checkpoint"
  | "not_an_outer_state"
  | "config"
  | "dtype"
  | "optimizer"
  | "counter";

export function refuse(
  problem: PythonCheckpointProblem,
  file: string | undefined,
  message: string,
  details: Readonly<Record<string, unknown>> = {},
): CheckpointError {
  return new CheckpointError(`${file === undefined ? "" : `${file}: `}${message}`, {
    code: `python_checkpoint.${problem}`,
    details: { ...details, ...(file === undefined ? {} : { path: file }) },
  });
}
