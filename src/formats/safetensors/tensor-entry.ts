// What a header says about one tensor, and the rules that hold for an entry by itself.

import { type SafetensorsDtype, tensorSizeBytes } from "./dtypes.js";
import { SafetensorsError } from "./errors.js";

/** What the header says about one tensor. */
export interface TensorEntry {
  readonly name: string;
  readonly dtype: SafetensorsDtype;
  /** Empty for a scalar; dimensions may be 0. */
  readonly shape: readonly number[];
  /** First byte and the byte after the last one, counted from the start of the data part. */
  readonly dataOffsets: readonly [begin: number, end: number];
  readonly sizeBytes: number;
}

/**
 * The entry, if shape, dtype and offsets agree. All numbers must be non-negative safe integers.
 * @throws SafetensorsError `invalid_entry`, `overflow` or `size_mismatch`.
 */
export function checkEntry(
  name: string,
  dtype: SafetensorsDtype,
  shape: readonly number[],
  offsets: readonly number[],
  file: string | undefined,
): TensorEntry {
  // Not by destructuring, since iterators cost most of the time that opening a file takes in a new process.
  const begin = offsets[0];
  const end = offsets[1];
  if (begin === undefined || end === undefined || offsets.length !== 2) {
    const message = `data_offsets must have 2 numbers, has ${offsets.length}`;
    throw new SafetensorsError("invalid_entry", message, { file, tensor: name });
  }
  if (end < begin) {
    const message = `data_offsets [${begin},${end}] end before they begin`;
    throw new SafetensorsError("invalid_entry", message, { file, tensor: name });
  }
  const sizeBytes = tensorSizeBytes(dtype, shape);
  if (sizeBytes === "overflow") {
    const message = `shape ${describeShape(shape)} of ${dtype} has more than 2^53 - 1 bits`;
    throw new SafetensorsError("overflow", message, { file, tensor: name });
  }
  if (sizeBytes !== end - begin) {
    const need = sizeBytes === "partial_byte" ? "does not fill whole bytes" : `takes ${sizeBytes} bytes`;
    const message = `shape ${describeShape(shape)} of ${dtype} ${need}, but data_offsets [${begin},${end}] span ${end - begin}`;
    throw new SafetensorsError("size_mismatch", message, { file, tensor: name });
  }
  return { name, dtype, shape, dataOffsets: [begin, end], sizeBytes };
}

function describeShape(shape: readonly number[]): string {
  const shown = shape.length > 16 ? [...shape.slice(0, 16), "…"] : shape;
  return `[${shown.join(",")}]`;
}
