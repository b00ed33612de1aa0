// Reading safetensors lazily: the header once, tensors one by one, by ranges. Two forms with one table of
// entries: `SafetensorsReader` over any source, `SafetensorsView` over bytes in memory (synchronous).
// Values are not looked at: NaN is legal in a file and must be checked by whoever uses it.

import type { SafetensorsDtype } from "./dtypes.js";
import { SafetensorsError } from "./errors.js";
import {
  LENGTH_FIELD_BYTES,
  parseHeader,
  parseHeaderLength,
  type SafetensorsHeader,
  type TensorEntry,
} from "./header.js";
import { type ByteSource, FIRST_READ_BYTES, plainBytes, readExactly } from "./source.js";

/** A tensor's bytes: little-endian, row-major, without gaps. */
export interface SafetensorsTensor {
  readonly dtype: SafetensorsDtype;
  readonly shape: readonly number[];
  readonly bytes: Uint8Array;
}

/** What one file and a sharded set have in common: tensors by name, read when asked for. */
export interface TensorReader {
  readonly entries: ReadonlyMap<string, TensorEntry>;
  entry(name: string): TensorEntry;
  read(name: string): Promise<SafetensorsTensor>;
  readRange(name: string, begin: number, end: number): Promise<Uint8Array>;
  readInto(name: string, target: ArrayBufferView): Promise<void>;
  /** Bytes from `begin` on into memory of the caller; readers that can do this without a copy have it. */
  readRangeInto?(name: string, begin: number, target: Uint8Array): Promise<void>;
  chunks(name: string, chunkBytes?: number): AsyncGenerator<Uint8Array, void, undefined>;
  close(): Promise<void>;
}

/** Default piece of `chunks`: large enough for full disk speed, small beside a model. */
const CHUNK_BYTES = 2 ** 23;

/** What all forms of a file have: the table of its tensors. */
export abstract class SafetensorsTable {
  /** Name of the file or address, where known. */
  readonly file: string | undefined;
  /** Tensors by name, in the order of their data. */
  readonly entries: ReadonlyMap<string, TensorEntry>;
  readonly metadata: ReadonlyMap<string, string>;
  /** First byte of the data part in the file. */
  readonly dataStart: number;
  readonly fileSizeBytes: number;

  constructor(header: SafetensorsHeader, file: string | undefined) {
    this.file = file;
    this.entries = header.entries;
    this.metadata = header.metadata;
    this.dataStart = header.dataStart;
    this.fileSizeBytes = header.fileSizeBytes;
  }

  /** @throws SafetensorsError `tensor_not_found`. */
  entry(name: string): TensorEntry {
    const entry = this.entries.get(name);
    if (entry !== undefined) return entry;
    const message = `no such tensor; the file has ${this.entries.size} tensors`;
    throw new SafetensorsError("tensor_not_found", message, { file: this.file, tensor: name });
  }
}

/** A file whose bytes are all in memory. Made by {@link parseSafetensors}. */
export class SafetensorsView extends SafetensorsTable {
  readonly #bytes: Uint8Array;

  constructor(header: SafetensorsHeader, bytes: Uint8Array, file: string | undefined) {
    super(header, file);
    this.#bytes = plainBytes(bytes);
  }

  /** The tensor as a view of the file's bytes (no copy). */
  read(name: string): SafetensorsTensor {
    const { dtype, shape, dataOffsets } = this.entry(name);
    const bytes = this.#bytes.subarray(this.dataStart + dataOffsets[0], this.dataStart + dataOffsets[1]);
    return { dtype, shape, bytes };
  }
}

/** A file read by ranges. Made by {@link openSafetensors}; close it when its source holds a file open. */
export class SafetensorsReader extends SafetensorsTable implements TensorReader {
  readonly #source: ByteSource;

  constructor(header: SafetensorsHeader, source: ByteSource) {
    super(header, source.name);
    this.#source = source;
  }

  /**
   * Reads one tensor whole. The bytes may share memory with the source.
   * @throws SafetensorsError `tensor_not_found`, `truncated`, or `too_large_for_memory` (use `chunks` then).
   */
  async read(name: string): Promise<SafetensorsTensor> {
    const { dtype, shape, sizeBytes } = this.entry(name);
    return { dtype, shape, bytes: await this.readRange(name, 0, sizeBytes) };
  }

  /** Bytes `begin` to `end` of one tensor. */
  async readRange(name: string, begin: number, end: number): Promise<Uint8Array> {
    const offset = this.#offsetOf(this.entry(name), begin, end);
    return this.#located(name, () => readExactly(this.#source, offset, end - begin));
  }

  /** Reads one tensor into memory of the caller, which must have exactly its size; any typed array will do. */
  async readInto(name: string, target: ArrayBufferView): Promise<void> {
    const entry = this.entry(name);
    if (target.byteLength !== entry.sizeBytes) {
      const message = `has ${entry.sizeBytes} bytes, the buffer to read into has ${target.byteLength}`;
      throw new SafetensorsError("size_mismatch", message, { file: this.file, tensor: name });
    }
    await this.readRangeInto(name, 0, new Uint8Array(target.buffer, target.byteOffset, target.byteLength));
  }

  /** Fills `target` with the tensor's bytes from `begin` on. */
  async readRangeInto(name: string, begin: number, target: Uint8Array): Promise<void> {
    const offset = this.#offsetOf(this.entry(name), begin, begin + target.byteLength);
    await this.#located(name, async () => {
      if (this.#source.readInto !== undefined) return this.#source.readInto(offset, target);
      for (let done = 0; done < target.byteLength; done += CHUNK_BYTES) {
        const length = Math.min(CHUNK_BYTES, target.byteLength - done);
        target.set(await readExactly(this.#source, offset + done, length), done);
      }
    });
  }

  /** One tensor in pieces of at most `chunkBytes`, for tensors that should not be in memory whole. */
  async *chunks(name: string, chunkBytes = CHUNK_BYTES): AsyncGenerator<Uint8Array, void, undefined> {
    const { sizeBytes } = this.entry(name);
    for (let begin = 0; begin < sizeBytes; begin += chunkBytes) {
      yield await this.readRange(name, begin, Math.min(begin + chunkBytes, sizeBytes));
    }
  }

  /** Releases the source. Reading afterwards fails. */
  async close(): Promise<void> {
    await this.#source.close?.();
  }

  #offsetOf(entry: TensorEntry, begin: number, end: number): number {
    if (!(begin >= 0 && begin <= end && end <= entry.sizeBytes)) {
      const message = `bytes ${begin} to ${end} are outside of a tensor of ${entry.sizeBytes} bytes`;
      throw new RangeError(message);
    }
    return this.dataStart + entry.dataOffsets[0] + begin;
  }

  /** Adds the tensor's name to errors of the source. */
  async #located<T>(tensor: string, read: () => Promise<T>): Promise<T> {
    try {
      return await read();
    } catch (error) {
      if (error instanceof SafetensorsError && error.tensor === undefined) throw error.forTensor(tensor);
      throw error;
    }
  }
}

/**
 * Opens a file by reading its header only.
 * @throws SafetensorsError for whatever breaks the format; errors of the source pass through.
 */
export async function openSafetensors(source: ByteSource): Promise<SafetensorsReader> {
  const { sizeBytes, name } = source;
  const firstBytes = await readExactly(source, 0, Math.min(sizeBytes, FIRST_READ_BYTES));
  const headerBytes = parseHeaderLength(firstBytes, sizeBytes, name);
  const end = LENGTH_FIELD_BYTES + headerBytes;
  const header =
    end <= firstBytes.byteLength
      ? firstBytes.subarray(LENGTH_FIELD_BYTES, end)
      : await readExactly(source, LENGTH_FIELD_BYTES, headerBytes);
  return new SafetensorsReader(parseHeader(header, sizeBytes, name), source);
}

/**
 * Parses a file that is in memory; tensors are views of `bytes`.
 * @throws SafetensorsError for whatever breaks the format.
 */
export function parseSafetensors(bytes: Uint8Array, file?: string): SafetensorsView {
  const end = LENGTH_FIELD_BYTES + parseHeaderLength(bytes, bytes.byteLength, file);
  const header = parseHeader(bytes.subarray(LENGTH_FIELD_BYTES, end), bytes.byteLength, file);
  return new SafetensorsView(header, bytes, file);
}
