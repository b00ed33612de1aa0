// The one error of a node's own affairs: its state folder, its identity, the state of the model that it trains.

import { SpeedtronicError } from "../../util/errors.js";

export type NodeProblem =
  /** Another process has this node's state folder. */
  | "locked"
  /** The state folder cannot be read or written, or holds something else. */
  | "state_folder"
  /** A file of the node's own is missing or is not what was written. */
  | "damaged_file"
  /** Another process sends under this node's name, and was there before. */
  | "duplicate_id"
  /** A published version that this node cannot take. */
  | "refused_version"
  /** A published version of a model that is not this node's. */
  | "other_model";

export class NodeError extends SpeedtronicError {
  readonly exitCode = 6;
  readonly problem: NodeProblem;

  constructor(
    problem: NodeProblem,
    message: string,
    fields: { readonly details?: Readonly<Record<string, unknown>>; readonly cause?: unknown } = {},
  ) {
    super(message, { code: `node.${problem}`, details: fields.details ?? {}, cause: fields.cause });
    this.problem = problem;
  }
}
