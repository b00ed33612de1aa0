// The one error of the safetensors reader and writer, with a stable code per rule of the format.

import { SpeedtronicError } from "../../util/errors.js";
import type { JsonFault, JsonFaultError } from "./json-scanner.js";

/** Which rule was broken. `SafetensorsError.code` is this with the prefix `safetensors.`. */
export type SafetensorsProblem =
  /** The file ends before its header or its data does. */
  | "truncated"
  /** Header length field above 100,000,000: damaged, or not a safetensors file. */
  | "header_too_large"
  /** Header is not valid UTF-8. */
  | "header_encoding"
  /** Header is not the JSON that the format asks for. */
  | "header_syntax"
  | "duplicate_key"
  /** `__metadata__` is not a map of strings to strings. */
  | "invalid_metadata"
  /** A tensor's entry lacks a field, or a field has the wrong type. */
  | "invalid_entry"
  | "unknown_dtype"
  /** A shape, size or offset is beyond 2^53 - 1. */
  | "overflow"
  /** Shape and dtype do not give the number of bytes that the offsets (or the data) have. */
  | "size_mismatch"
  /** Bytes that belong to no tensor, before, between or after the tensors. */
  | "hole"
  /** Two tensors claim the same bytes. */
  | "overlap"
  | "tensor_not_found"
  /** The index of a sharded set and its files do not agree. */
  | "shard_mismatch"
  /** A name that cannot be written (`__metadata__`, no valid UTF-8), or a shard outside of its folder. */
  | "invalid_name"
  /** The dtype has no conversion to float32 here. */
  | "unsupported_dtype"
  /** More bytes than one buffer holds on this platform: read in pieces. */
  | "too_large_for_memory"
  /** A source or server does not do what was asked of it. */
  | "source";

export interface SafetensorsErrorFields {
  /** File name or address, where known. */
  file?: string | undefined;
  tensor?: string | undefined;
  /** Byte position in the file where the problem was found. */
  offset?: number | undefined;
  cause?: unknown;
}

/** A file that breaks the format, or data that cannot be written as such a file. */
export class SafetensorsError extends SpeedtronicError {
  readonly exitCode = 4;
  readonly #problem: SafetensorsProblem;
  readonly #message: string;
  readonly file: string | undefined;
  readonly tensor: string | undefined;
  readonly offset: number | undefined;

  constructor(problem: SafetensorsProblem, message: string, fields: SafetensorsErrorFields = {}) {
    const { file, tensor, offset, cause } = fields;
    const where =
      (file === undefined ? "" : `${file}: `) + (tensor === undefined ? "" : `tensor ${quote(tensor)}: `);
    super(where + message + (offset === undefined ? "" : ` (at byte ${offset})`), {
      code: `safetensors.${problem}`,
      details: {
        ...(file === undefined ? {} : { file }),
        ...(tensor === undefined ? {} : { tensor }),
        ...(offset === undefined ? {} : { offset }),
      },
      cause,
    });
    this.#problem = problem;
    this.#message = message;
    this.file = file;
    this.tensor = tensor;
    this.offset = offset;
  }

  /** The same error with the name of the tensor whose reading met it. */
  forTensor(tensor: string): SafetensorsError {
    const { file, offset, cause } = this;
    return new SafetensorsError(this.#problem, this.#message, { file, tensor, offset, cause });
  }
}

/** Quotes text from a file for a message: control characters escaped, never more than a line. */
export function quote(text: string): string {
  return JSON.stringify(text.length > 120 ? `${text.slice(0, 120)}…` : text);
}

/** The error for a file that ends too early. */
export function truncatedError(
  haveBytes: number,
  needBytes: number | bigint,
  fields: SafetensorsErrorFields,
) {
  return new SafetensorsError(
    "truncated",
    `file is truncated: have ${haveBytes} of ${needBytes} bytes`,
    fields,
  );
}

const PROBLEM_OF_FAULT: Readonly<Record<JsonFault, SafetensorsProblem>> = {
  syntax: "header_syntax",
  duplicate_key: "duplicate_key",
  overflow: "overflow",
  not_an_integer: "invalid_entry",
};

/** The error for a fault in JSON text that starts at byte `startByte` of its file. */
export function faultError(
  fault: JsonFaultError,
  text: string,
  startByte: number,
  fields: SafetensorsErrorFields,
): SafetensorsError {
  const offset = startByte + new TextEncoder().encode(text.slice(0, fault.position)).byteLength;
  return new SafetensorsError(PROBLEM_OF_FAULT[fault.fault], fault.message, { ...fields, offset });
}
