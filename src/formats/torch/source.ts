// Reading exact ranges of a file, with the error of this format when it is too short.

import { type ByteSource, readExactly } from "../safetensors/source.js";
import { torchTruncated } from "./errors.js";

/** `length` bytes from `offset`. */
export async function readRange(source: ByteSource, offset: number, length: number): Promise<Uint8Array> {
  if (offset + length > source.sizeBytes)
    throw torchTruncated(source.sizeBytes, offset + length, { file: source.name, offset });
  return length === 0 ? new Uint8Array(0) : readExactly(source, offset, length);
}

export function dataView(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
