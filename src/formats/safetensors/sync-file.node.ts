// A safetensors file read on the calling thread, without promises: for worker threads that share the reading of a large
// file, where each trip through the event loop and the thread pool costs as much as copying a good part of a megabyte.
// Node only; a thread that answers requests should take `openSafetensorsFile` instead.

import { closeSync, fstatSync, openSync, readSync } from "node:fs";

import { SafetensorsError, truncatedError } from "./errors.js";
import { LENGTH_FIELD_BYTES, parseHeader, parseHeaderLength, type SafetensorsHeader } from "./header.js";
import { SafetensorsTable } from "./reader.js";
import { FIRST_READ_BYTES } from "./source.js";

/** Made by {@link openSafetensorsFileSync}; close it after use. */
export class SafetensorsSyncFile extends SafetensorsTable {
  #fd: number | undefined;

  constructor(header: SafetensorsHeader, path: string, fd: number) {
    super(header, path);
    this.#fd = fd;
  }

  /**
   * Fills `target` with the tensor's bytes from `begin` on.
   * @throws SafetensorsError `tensor_not_found`, `truncated`, `source` when closed; RangeError outside of the tensor.
   */
  readRangeInto(name: string, begin: number, target: Uint8Array): void {
    const { dataOffsets, sizeBytes } = this.entry(name);
    const end = begin + target.byteLength;
    if (!(begin >= 0 && end <= sizeBytes))
      throw new RangeError(`bytes ${begin} to ${end} are outside of a tensor of ${sizeBytes} bytes`);
    if (this.#fd === undefined)
      throw new SafetensorsError("source", "the file is closed", { file: this.file, tensor: name });
    try {
      readWhole(this.#fd, this.dataStart + dataOffsets[0] + begin, target, this.file);
    } catch (error) {
      throw error instanceof SafetensorsError ? error.forTensor(name) : error;
    }
  }

  /** Harmless when called twice. */
  close(): void {
    const fd = this.#fd;
    this.#fd = undefined;
    if (fd !== undefined) closeSync(fd);
  }
}

/**
 * Opens a file by reading its header only.
 * @throws SafetensorsError for whatever breaks the format; errors of the file system pass through.
 */
export function openSafetensorsFileSync(path: string): SafetensorsSyncFile {
  const fd = openSync(path, "r");
  try {
    const sizeBytes = fstatSync(fd).size;
    const first = new Uint8Array(Math.min(sizeBytes, FIRST_READ_BYTES));
    readWhole(fd, 0, first, path);
    const headerBytes = parseHeaderLength(first, sizeBytes, path);
    let header = first.subarray(LENGTH_FIELD_BYTES, LENGTH_FIELD_BYTES + headerBytes);
    if (header.byteLength < headerBytes) {
      header = new Uint8Array(headerBytes);
      readWhole(fd, LENGTH_FIELD_BYTES, header, path);
    }
    return new SafetensorsSyncFile(parseHeader(header, sizeBytes, path), path, fd);
  } catch (error) {
    closeSync(fd);
    throw error;
  }
}

function readWhole(fd: number, offset: number, target: Uint8Array, file: string | undefined): void {
  for (let done = 0; done < target.byteLength; ) {
    const bytesRead = readSync(fd, target, done, target.byteLength - done, offset + done);
    if (bytesRead === 0)
      throw truncatedError(offset + done, offset + target.byteLength, { file, offset: offset + done });
    done += bytesRead;
  }
}
