// The one error about a run as a whole: what `init` put into its repository, or what is missing there.

import { SpeedtronicError } from "../../util/errors.js";

/** `RunError.code` is this with the prefix `run.`. */
export type RunProblem =
  /** Everybody could read it. */
  | "public_repository"
  /** Another run was set up there. */
  | "already_set_up"
  /** Nobody set a run up there. */
  | "not_set_up"
  /** The files of the set-up contradict each other, or are none of ours. */
  | "invalid_files"
  /** The model that would be trained is not the run's. */
  | "other_model"
  /** The head moved faster than a commit could be made. */
  | "busy";

export class RunError extends SpeedtronicError {
  readonly exitCode = 6;
  readonly problem: RunProblem;

  constructor(
    problem: RunProblem,
    message: string,
    fields: { readonly details?: Readonly<Record<string, unknown>>; readonly cause?: unknown } = {},
  ) {
    super(message, { code: `run.${problem}`, details: fields.details ?? {}, cause: fields.cause });
    this.problem = problem;
  }
}
