// What stops an aggregator, other than the transport itself.

import { SpeedtronicError } from "../../util/errors.js";

export type AggregatorProblem =
  /** Another master writes this repository. */
  | "fenced"
  /** Somebody wrote a version in this master's name. */
  | "forged"
  /** The last round could not be finished. */
  | "undrained"
  /** The repository has no run, and there is nothing to start one from. */
  | "no_run"
  /** Weights lie in the repository and no record says what they are. */
  | "half_started"
  /** A file that the record names is missing, or is not what its hash says. */
  | "damaged_repository"
  /** The run in the repository trains another model. */
  | "other_model"
  /** A file of the aggregator's own scratch folder has gone. */
  | "scratch_lost";

export class AggregatorError extends SpeedtronicError {
  readonly exitCode = 6;
  readonly problem: AggregatorProblem;

  constructor(
    problem: AggregatorProblem,
    message: string,
    fields: { readonly details?: Readonly<Record<string, unknown>>; readonly cause?: unknown } = {},
  ) {
    super(message, { code: `aggregator.${problem}`, details: fields.details ?? {}, cause: fields.cause });
    this.problem = problem;
  }
}
