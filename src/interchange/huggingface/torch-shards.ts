// A model over several PyTorch files, read like one: the older sibling of sharded safetensors. The index is checked
// against the files when the set is opened.

import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";

import {
  parseShardIndex,
  type SafetensorsTensor,
  type TensorEntry,
  type TensorReader,
} from "../../formats/safetensors/index.js";
import { openTorchFile } from "../../formats/torch/index.node.js";
import { HuggingFaceError } from "./errors.js";

class JoinedReader implements TensorReader {
  readonly entries: ReadonlyMap<string, TensorEntry>;
  readonly #readers: readonly TensorReader[];

  constructor(readers: readonly TensorReader[]) {
    this.#readers = readers;
    this.entries = new Map(readers.flatMap((reader) => [...reader.entries]));
  }

  entry(name: string): TensorEntry {
    return this.#readerOf(name).entry(name);
  }

  read(name: string): Promise<SafetensorsTensor> {
    return this.#readerOf(name).read(name);
  }

  readRange(name: string, begin: number, end: number): Promise<Uint8Array> {
    return this.#readerOf(name).readRange(name, begin, end);
  }

  readInto(name: string, target: ArrayBufferView): Promise<void> {
    return this.#readerOf(name).readInto(name, target);
  }

  chunks(name: string, chunkBytes?: number): AsyncGenerator<Uint8Array, void, undefined> {
    return this.#readerOf(name).chunks(name, chunkBytes);
  }

  async close(): Promise<void> {
    for (const reader of this.#readers) await reader.close();
  }

  /** The first complains about a name that none has. */
  #readerOf(name: string): TensorReader {
    return this.#readers.find(({ entries }) => entries.has(name)) ?? this.#readers[0]!;
  }
}

/** @throws HuggingFaceError `huggingface.shards` where index and files disagree; errors of the formats */
export async function openTorchShards(indexPath: string): Promise<TensorReader> {
  const index = parseShardIndex(await readFile(indexPath), indexPath);
  const readers = new Map<string, TensorReader>();
  try {
    for (const file of index.files)
      readers.set(file, (await openTorchFile(join(dirname(indexPath), file))).tensors);
    for (const [tensor, file] of index.fileOf)
      if (readers.get(file)?.entries.has(tensor) !== true)
        throw new HuggingFaceError(
          `${indexPath}: it says that "${tensor}" is in ${file}, but that file does not have it`,
          { code: "huggingface.shards", details: { path: indexPath, tensor, file } },
        );
    const [first] = readers.values();
    if (first !== undefined) return new JoinedReader([...readers.values()]);
    throw new HuggingFaceError(`${indexPath}: it names no files`, {
      code: "huggingface.shards",
      details: { path: indexPath },
    });
  } catch (error) {
    for (const reader of readers.values()) await reader.close();
    throw error;
  }
}
