// The one error of the protocol core: a document of ours that cannot be read, or events in an order that cannot be.

import { SpeedtronicError } from "../../util/errors.js";

/** Which rule was broken. `ProtocolError.code` is this with the prefix `protocol.`. */
export type ProtocolProblem =
  /** A ledger's text is not what we write. */
  | "invalid_ledger"
  /** A table of leases is not what we write. */
  | "invalid_leases"
  /** Settings, counters or weights outside their range. */
  | "invalid_setting"
  /** A node has used up its numbers for deltas. */
  | "numbers_exhausted"
  /** An event that contradicts the state. */
  | "out_of_order";

export interface ProtocolErrorFields {
  /** Where the document lies, if known. */
  readonly file?: string | undefined;
  readonly cause?: unknown;
}

export class ProtocolError extends SpeedtronicError {
  readonly exitCode = 6;
  readonly problem: ProtocolProblem;
  readonly file: string | undefined;

  constructor(problem: ProtocolProblem, message: string, { file, cause }: ProtocolErrorFields = {}) {
    super(file === undefined ? message : `${file}: ${message}`, {
      code: `protocol.${problem}`,
      details: file === undefined ? {} : { file },
      cause,
    });
    this.problem = problem;
    this.file = file;
  }
}
