// A delta as a file: F32 tensors in canonical order under a header that says whose it is. Bytes in, bytes out; files on
// disk are in delta-file.node.ts.

import {
  type ByteSink,
  type ByteSource,
  openSafetensors,
  SafetensorsError,
  type SafetensorsReader,
  type TensorStream,
  writeSafetensors,
} from "../../formats/safetensors/index.js";
import { type DeltaHeader, type DeltaHeaderInput, deltaMetadata, parseDeltaHeader } from "./delta-header.js";
import { WireError } from "./errors.js";

/** A delta file opened by its header; tensors are read when asked for. Close the reader after use. */
export interface Delta {
  readonly reader: SafetensorsReader;
  readonly header: DeltaHeader;
}

/**
 * Streams a delta file into `sink` and returns its size in bytes. The same tensors and header give the same bytes.
 * @throws WireError `wire.invalid_header`, `wire.invalid_node_id`, `wire.unsupported_dtype`; errors of the tensors'
 *   streams and of the sink pass through, and the sink then has a part of a file.
 */
export async function writeDelta(
  sink: ByteSink,
  tensors: Iterable<TensorStream>,
  header: DeltaHeaderInput,
): Promise<number> {
  const metadata = deltaMetadata(header);
  return writeSafetensors(sink, [...tensors].map(requireFloat), metadata);
}

/**
 * Opens a delta; the source is closed when that fails.
 * @throws WireError `wire.unreadable_delta` with a fixed text and the cause for whatever is wrong with the file,
 *   `wire.invalid_header`. Errors of the source that are not about the file's content pass through.
 */
export async function loadDelta(source: ByteSource): Promise<Delta> {
  try {
    const reader = await openSafetensors(source);
    return { reader, header: parseDeltaHeader(reader.metadata, source.name) };
  } catch (error) {
    await source.close?.();
    throw error instanceof SafetensorsError ? unreadableDelta(source.name, error) : error;
  }
}

/** The error for a delta file that cannot be read, whatever the reason. */
export function unreadableDelta(file: string | undefined, cause: Error): WireError {
  // The reason names the file already.
  const reason = file === undefined ? cause.message : cause.message.replace(`${file}: `, "");
  return new WireError("unreadable_delta", `unable to load the delta file: ${reason}`, { file, cause });
}

function requireFloat(tensor: TensorStream): TensorStream {
  if (tensor.dtype === "F32" || tensor.dtype === "BF16" || tensor.dtype === "F16") return tensor;
  const message = `a delta holds F32 (or F16, BF16) tensors, this one is ${tensor.dtype}`;
  throw new WireError("unsupported_dtype", message, { tensor: tensor.name });
}
