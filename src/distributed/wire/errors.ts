// The one error of the wire format: paths, headers, records and tensors that peers exchange. Each rule has a stable
// code. Faults of the container itself stay SafetensorsError, except where a whole delta is loaded (delta-file.ts).

import { SpeedtronicError } from "../../util/errors.js";

/** Which rule was broken. `WireError.code` is this with the prefix `wire.`. */
export type WireProblem =
  /** No delta to average. */
  | "no_deltas"
  /** Two states, or a delta and the state it is for, do not have the same tensors. */
  | "key_mismatch"
  | "shape_mismatch"
  /** Complex, 8-bit and packed floats, or a delta that is no floating tensor. */
  | "unsupported_dtype"
  /** NaN or infinity, or a value that overflows float32. */
  | "non_finite"
  /** A delta file that cannot be opened or breaks the container format. */
  | "unreadable_delta"
  | "invalid_header"
  | "invalid_path"
  | "invalid_node_id"
  /** `global/step_count.json` is not what it must be. */
  | "invalid_record"
  /** A pointer to weights that leaves `global/`, or is no plain file name there. */
  | "invalid_model_file"
  /** Learning rate, momentum or weights that are no finite numbers. */
  | "invalid_setting";

export interface WireErrorFields {
  /** File name, address or path in the repository, where known. */
  file?: string | undefined;
  tensor?: string | undefined;
  cause?: unknown;
}

/** Something on the wire breaks its rules, or cannot be written by them. */
export class WireError extends SpeedtronicError {
  readonly exitCode = 3;
  readonly file: string | undefined;
  readonly tensor: string | undefined;

  constructor(problem: WireProblem, message: string, { file, tensor, cause }: WireErrorFields = {}) {
    const where =
      (file === undefined ? "" : `${file}: `) + (tensor === undefined ? "" : `tensor ${quote(tensor)}: `);
    super(where + message, {
      code: `wire.${problem}`,
      details: { ...(file === undefined ? {} : { file }), ...(tensor === undefined ? {} : { tensor }) },
      cause,
    });
    this.file = file;
    this.tensor = tensor;
  }
}

/** Text of a peer, made safe for a message: control characters escaped, at most a line. */
export function quote(text: string): string {
  return JSON.stringify(text.length > 120 ? `${text.slice(0, 120)}…` : text);
}
