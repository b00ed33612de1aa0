// Safetensors files on disk. Node only. Saving goes through a temporary file and a rename, so that a reader
// (or a mapping) of the old file is never disturbed and a crash leaves the old file or the new one.

import { open, readFile } from "node:fs/promises";
import { dirname, join } from "node:path";

import { type AtomicWriteOptions, writeStreamAtomically } from "../../util/atomic-file.node.js";
import { SafetensorsError, truncatedError } from "./errors.js";
import {
  openSafetensors,
  parseSafetensors,
  type SafetensorsReader,
  type SafetensorsTensor,
} from "./reader.js";
import { openShardedSafetensors, parseShardIndex, type ShardedSafetensorsReader } from "./shards.js";
import type { ByteSource } from "./source.js";
import { type MetadataInput, type TensorStream, writeSafetensors } from "./writer.js";

/** One read call takes at most 2^31 - 1 bytes. */
const MAX_READ_BYTES = 2 ** 30;
/** Reads up to this size come out of a block that is read at once. */
const SMALL_BYTES = 2 ** 15;
const BLOCK_BYTES = 2 ** 18;
/** Up to this size a file is loaded by one read into one buffer. */
const MAX_SINGLE_LOAD_BYTES = 2 ** 31;

/** A state: tensors by name, as {@link loadSafetensors} gives it. */
export type TensorMap = ReadonlyMap<string, Omit<TensorStream, "name">>;

/** Opens `path` for reading by ranges; close it after use. Errors of the file system pass through. */
export async function fileSource(path: string): Promise<Required<ByteSource>> {
  const handle = await open(path, "r");
  const readInto = async (offset: number, target: Uint8Array) => {
    let done = 0;
    while (done < target.byteLength) {
      const length = Math.min(target.byteLength - done, MAX_READ_BYTES);
      const { bytesRead } = await handle.read(target, done, length, offset + done);
      if (bytesRead === 0)
        throw truncatedError(offset + done, offset + target.byteLength, { file: path, offset });
      done += bytesRead;
    }
  };
  try {
    const sizeBytes = (await handle.stat()).size;
    const readFresh = async (offset: number, length: number) => {
      const target = allocate(length, path);
      await readInto(offset, target);
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
      readInto,
      read: (offset, length) => (length <= SMALL_BYTES ? readFromBlock : readFresh)(offset, length),
      close: () => handle.close(),
    };
  } catch (error) {
    await handle.close();
    throw error;
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

/** {@link saveSafetensorsFile} for a state by name. */
export async function saveSafetensors(
  state: TensorMap,
  path: string,
  metadata: MetadataInput = {},
  options: AtomicWriteOptions = {},
): Promise<void> {
  const tensors = [...state].map(([name, tensor]) => ({ ...tensor, name }));
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
