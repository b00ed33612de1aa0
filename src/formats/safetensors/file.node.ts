// Safetensors files on disk. Node only. Saving goes through a temporary file and a rename, so that a reader
// (or a mapping) of the old file is never disturbed and a crash leaves the old file or the new one.

import { closeSync, fstatSync, openSync, read, readSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";

import { type AtomicWriteOptions, writeStreamAtomically } from "../../util/atomic-file.node.js";
import { type StateValue, toStream } from "./container.js";
import { SafetensorsError, truncatedError } from "./errors.js";
import {
  openSafetensors,
  parseSafetensors,
  type SafetensorsReader,
  type SafetensorsTensor,
} from "./reader.js";
import { openShardedSafetensors, parseShardIndex, type ShardedSafetensorsReader } from "./shards.js";
import { type ByteSource, FIRST_READ_BYTES } from "./source.js";
import { type MetadataInput, type TensorStream, writeSafetensors } from "./writer.js";

const PARALLEL_BYTES = 2 ** 24;
/** As many as the thread pool has threads by default would leave none for others. */
const PARALLEL_READS = 3;
/** Reads up to this size come out of a block that is read at once. */
const SMALL_BYTES = 2 ** 15;
const BLOCK_BYTES = 2 ** 18;
/** Up to this size a file is loaded by one read into one buffer. */
const MAX_SINGLE_LOAD_BYTES = 2 ** 31;

/** A state: tensors by name, as {@link loadSafetensors} and a module's state dict give it. */
export type TensorMap = ReadonlyMap<string, StateValue | Omit<TensorStream, "name">>;

/** Opens `path` for reading by ranges; close it after use. Errors of the file system pass through. */
export async function fileSource(path: string): Promise<Required<ByteSource>> {
  const file = new OpenFile(path);
  const { sizeBytes } = file;
  const readFresh = async (offset: number, length: number) => {
    const target = allocate(length, path);
    await file.readInto(offset, target);
    return target;
  };
  let block: { offset: number; bytes: Promise<Uint8Array> } | undefined;
  // Tensors are mostly read in the order of the file, so that one block serves many small ones.
  const readFromBlock = async (offset: number, length: number) => {
    if (block === undefined || offset < block.offset || offset + length > block.offset + BLOCK_BYTES) {
      block = { offset, bytes: readFresh(offset, Math.min(BLOCK_BYTES, sizeBytes - offset)) };
    }
    const { offset: blockOffset, bytes } = block;
    // A copy: aligned, and it does not keep the block alive.
    return (await bytes).slice(offset - blockOffset, offset - blockOffset + length);
  };
  return {
    name: path,
    sizeBytes,
    readInto: (offset, target) => file.readInto(offset, target),
    read: async (offset, length) => {
      if (offset === 0 && length <= FIRST_READ_BYTES) return file.readStart(length);
      return (length <= SMALL_BYTES ? readFromBlock : readFresh)(offset, length);
    },
    close: () => file.close(),
  };
}

/**
 * A descriptor with its reads. Opening, and the start of the file, go straight to the system: that takes a few
 * microseconds, where each trip through the thread pool takes as long as reading a whole header.
 */
class OpenFile {
  readonly sizeBytes: number;
  readonly #path: string;
  readonly #fd: number;
  readonly #reads = new Set<Promise<unknown>>();
  #isClosed = false;

  constructor(path: string) {
    this.#path = path;
    this.#fd = openSync(path, "r");
    try {
      this.sizeBytes = fstatSync(this.#fd).size;
    } catch (error) {
      closeSync(this.#fd);
      throw error;
    }
  }

  readStart(length: number): Uint8Array {
    this.#requireOpen();
    const target = allocate(length, this.#path);
    let done = 0;
    while (done < length) {
      const bytesRead = readSync(this.#fd, target, done, length - done, done);
      if (bytesRead === 0) throw truncatedError(done, length, { file: this.#path, offset: 0 });
      done += bytesRead;
    }
    return target;
  }

  /** Large ranges in several reads at once: new memory is slow to be touched for the first time. */
  async readInto(offset: number, target: Uint8Array): Promise<void> {
    const { byteLength } = target;
    if (byteLength < 2 * PARALLEL_BYTES) return this.#readPart(offset, target);
    let begin = 0;
    const readNext = async (): Promise<void> => {
      while (begin < byteLength) {
        const part = target.subarray(begin, begin + PARALLEL_BYTES);
        const at = offset + begin;
        begin += PARALLEL_BYTES;
        try {
          await this.#readPart(at, part);
        } catch (error) {
          // The others stop as well.
          begin = byteLength;
          throw error;
        }
      }
    };
    await Promise.all(Array.from({ length: PARALLEL_READS }, readNext));
  }

  async #readPart(offset: number, target: Uint8Array): Promise<void> {
    let done = 0;
    while (done < target.byteLength) {
      const bytesRead = await this.#read(target, done, target.byteLength - done, offset + done);
      if (bytesRead === 0)
        throw truncatedError(offset + done, offset + target.byteLength, { file: this.#path, offset });
      done += bytesRead;
    }
  }

  /** Waits for reads in flight: the number of a closed descriptor may belong to another file at once. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await Promise.allSettled(this.#reads);
    closeSync(this.#fd);
  }

  async #read(target: Uint8Array, begin: number, length: number, offset: number): Promise<number> {
    this.#requireOpen();
    const reading = new Promise<number>((resolve, reject) => {
      read(this.#fd, target, begin, length, offset, (error, bytesRead) =>
        error === null ? resolve(bytesRead) : reject(error),
      );
    });
    this.#reads.add(reading);
    try {
      return await reading;
    } finally {
      this.#reads.delete(reading);
    }
  }

  #requireOpen(): void {
    if (this.#isClosed) throw new SafetensorsError("source", "the file is closed", { file: this.#path });
  }
}

/**
 * Opens a file by reading its header only; `close` the reader after use.
 * @throws SafetensorsError for whatever breaks the format; errors of the file system pass through.
 */
export async function openSafetensorsFile(path: string): Promise<SafetensorsReader> {
  const source = await fileSource(path);
  try {
    return await openSafetensors(source);
  } catch (error) {
    await source.close();
    throw error;
  }
}

/**
 * Opens a sharded set by its index (`model.safetensors.index.json`); the shards lie beside it.
 * @throws SafetensorsError for whatever breaks the formats; errors of the file system pass through.
 */
export async function openShardedSafetensorsFiles(indexPath: string): Promise<ShardedSafetensorsReader> {
  const index = parseShardIndex(await readFile(indexPath), indexPath);
  return openShardedSafetensors(index, (name) => fileSource(join(dirname(indexPath), name)));
}

/**
 * Writes a canonical file atomically, with its parent folders, and returns its size in bytes.
 * @throws FileWriteError, SafetensorsError; `path` is unchanged then.
 */
export async function saveSafetensorsFile(
  path: string,
  tensors: Iterable<TensorStream>,
  metadata: MetadataInput = {},
  options: AtomicWriteOptions = {},
): Promise<number> {
  let sizeBytes = 0;
  await writeStreamAtomically(
    path,
    async (sink) => {
      sizeBytes = await writeSafetensors(sink, tensors, metadata);
    },
    { createFolders: true, ...options },
  );
  return sizeBytes;
}

/**
 * {@link saveSafetensorsFile} for a state by name. Tensors that share memory are written under each of their names.
 */
export async function saveSafetensors(
  state: TensorMap,
  path: string,
  metadata: MetadataInput = {},
  options: AtomicWriteOptions = {},
): Promise<void> {
  const tensors = [...state].map(([name, value]) => toStream(name, value));
  await saveSafetensorsFile(path, tensors, metadata, options);
}

/**
 * Loads every tensor of a file into memory of this process (not a mapping: later changes of the file are not
 * seen). Tensors of a file up to 2 GiB share one buffer.
 */
export async function loadSafetensors(path: string): Promise<Map<string, SafetensorsTensor>> {
  const source = await fileSource(path);
  try {
    const tensors = new Map<string, SafetensorsTensor>();
    if (source.sizeBytes <= MAX_SINGLE_LOAD_BYTES) {
      // The header is checked first: a file that is not safetensors is not read whole.
      await openSafetensors(source);
      const view = parseSafetensors(await source.read(0, source.sizeBytes), path);
      for (const name of view.entries.keys()) tensors.set(name, view.read(name));
    } else {
      const reader = await openSafetensors(source);
      for (const name of reader.entries.keys()) tensors.set(name, await reader.read(name));
    }
    return tensors;
  } finally {
    await source.close();
  }
}

/** The metadata in a file's header; empty when it has none. */
export async function readMetadata(path: string): Promise<ReadonlyMap<string, string>> {
  const reader = await openSafetensorsFile(path);
  await reader.close();
  return reader.metadata;
}

function allocate(length: number, path: string): Uint8Array {
  try {
    // Not zeroed, since every byte is read over; "Slow" means a buffer of its own, which starts aligned.
    const { buffer, byteOffset } = Buffer.allocUnsafeSlow(length);
    return new Uint8Array(buffer, byteOffset, length);
  } catch (cause) {
    const message = `${length} bytes do not fit into one buffer on this platform; read the tensor in chunks`;
    throw new SafetensorsError("too_large_for_memory", message, { file: path, cause });
  }
}
