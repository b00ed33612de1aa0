// The one error of the reader of PyTorch files, with a stable code per reason for refusing.

import { SpeedtronicError } from "../../util/errors.js";
import { quote } from "../safetensors/errors.js";

export { quote };

/** Why a file was refused. `TorchFileError.code` is this with the prefix `torch.`. */
export type TorchProblem =
  /** Neither of the two forms that PyTorch writes. */
  | "not_torch"
  /** The file ends before what it describes. */
  | "truncated"
  /** The zip container is damaged or ambiguous. */
  | "zip"
  /** A record of the zip container is compressed or encrypted. */
  | "compressed"
  /** Two records of the zip container have one name, or share bytes. */
  | "duplicate_record"
  | "missing_record"
  /** The pickle asks for a function or class that a file of tensors does not need. */
  | "forbidden_call"
  /** The pickle uses an instruction that a file of tensors does not need. */
  | "forbidden_instruction"
  /** The pickle breaks its own rules. */
  | "pickle"
  /** Text that is not valid UTF-8. */
  | "encoding"
  /** A limit on size, depth or number was passed. */
  | "limit"
  /** A persistent id that does not describe a storage. */
  | "storage"
  /** A tensor whose shape, strides or offset do not fit its storage. */
  | "tensor"
  /** Two tensors would have one name. */
  | "duplicate_name"
  /** Sparse, quantised, meta or other tensors that are not plain numbers in a storage. */
  | "unsupported"
  /** Written on a big-endian machine. */
  | "byte_order"
  | "tensor_not_found"
  /** More bytes than one buffer holds on this platform: read in pieces. */
  | "too_large_for_memory";

export interface TorchErrorFields {
  /** File name or address, where known. */
  file?: string | undefined;
  tensor?: string | undefined;
  /** Byte position in the file where the problem was found. */
  offset?: number | undefined;
  details?: Readonly<Record<string, unknown>>;
  cause?: unknown;
}

/** A file that is no PyTorch file, is damaged, or asks for what this reader never does. */
export class TorchFileError extends SpeedtronicError {
  readonly exitCode = 4;
  readonly file: string | undefined;
  readonly tensor: string | undefined;
  readonly offset: number | undefined;

  constructor(problem: TorchProblem, message: string, fields: TorchErrorFields = {}) {
    const { file, tensor, offset, details, cause } = fields;
    const where =
      (file === undefined ? "" : `${file}: `) + (tensor === undefined ? "" : `tensor ${quote(tensor)}: `);
    super(where + message + (offset === undefined ? "" : ` (at byte ${offset})`), {
      code: `torch.${problem}`,
      details: {
        ...details,
        ...(file === undefined ? {} : { file }),
        ...(tensor === undefined ? {} : { tensor }),
        ...(offset === undefined ? {} : { offset }),
      },
      cause,
    });
    this.file = file;
    this.tensor = tensor;
    this.offset = offset;
  }
}

/** The error for a file that ends too early. */
export function torchTruncated(haveBytes: number, needBytes: number, fields: TorchErrorFields) {
  const message = `file is truncated: have ${haveBytes} of ${needBytes} bytes`;
  return new TorchFileError("truncated", message, {
    ...fields,
    details: { ...fields.details, have: haveBytes, need: needBytes },
  });
}
