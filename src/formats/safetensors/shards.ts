// A model over several safetensors files, with an index that says which tensor is where
// (`model.safetensors.index.json`). The index is checked against the headers of all files when the set is opened,
// so that a tensor is never silently missing or taken from a file that the index does not name.

import { faultError, quote, SafetensorsError } from "./errors.js";
import { decodeUtf8, type TensorEntry } from "./header.js";
import { JsonFaultError, JsonScanner } from "./json-scanner.js";
import {
  openSafetensors,
  type SafetensorsReader,
  type SafetensorsTensor,
  type TensorReader,
} from "./reader.js";
import type { ByteSource } from "./source.js";

/** A parsed index. */
export interface ShardIndex {
  /** Name of the index file, where known. */
  readonly file: string | undefined;
  /** File name of each tensor's shard. */
  readonly fileOf: ReadonlyMap<string, string>;
  /** The shards' file names, each once, sorted. */
  readonly files: readonly string[];
}

/**
 * Parses an index. Only `weight_map` counts; the rest (such as `metadata.total_size`, which writers compute in
 * different ways) is skipped.
 * @throws SafetensorsError for wrong JSON, duplicate keys, and shard names that lead out of the folder.
 */
export function parseShardIndex(bytes: Uint8Array, file?: string): ShardIndex {
  const text = decodeUtf8(bytes, 0, file);
  const scanner = new JsonScanner(text);
  const fileOf = new Map<string, string>();
  const keys = new Set<string>();
  try {
    scanner.readObject((key) => {
      if (keys.has(key)) scanner.fail("duplicate_key", `key ${quote(key)} appears twice`);
      keys.add(key);
      if (key !== "weight_map") return scanner.skipValue();
      scanner.readObject((tensor) => {
        if (fileOf.has(tensor)) scanner.fail("duplicate_key", `tensor ${quote(tensor)} appears twice`);
        const shard = scanner.readString("a file name in double quotes");
        if (!isPlainFileName(shard)) {
          const message = `shard ${quote(shard)} is not the name of a file in the index's folder`;
          throw new SafetensorsError("invalid_name", message, { file, tensor });
        }
        fileOf.set(tensor, shard);
      });
    });
    scanner.expectEnd();
  } catch (error) {
    throw error instanceof JsonFaultError ? faultError(error, text, 0, { file }) : error;
  }
  if (!keys.has("weight_map")) throw new SafetensorsError("invalid_entry", "weight_map is missing", { file });
  return { file, fileOf, files: [...new Set(fileOf.values())].sort() };
}

/** A sharded set, read like one file. Made by {@link openShardedSafetensors}. */
export class ShardedSafetensorsReader implements TensorReader {
  /** All tensors, shard by shard; offsets count from the data part of the tensor's own shard. */
  readonly entries: ReadonlyMap<string, TensorEntry>;
  /** The open shards by file name, for their metadata. */
  readonly shards: ReadonlyMap<string, SafetensorsReader>;
  readonly #index: ShardIndex;

  constructor(index: ShardIndex, shards: ReadonlyMap<string, SafetensorsReader>) {
    this.#index = index;
    this.shards = shards;
    this.entries = new Map([...shards.values()].flatMap((shard) => [...shard.entries]));
  }

  entry(name: string): TensorEntry {
    return this.#shardOf(name).entry(name);
  }

  async read(name: string): Promise<SafetensorsTensor> {
    return this.#shardOf(name).read(name);
  }

  async readRange(name: string, begin: number, end: number): Promise<Uint8Array> {
    return this.#shardOf(name).readRange(name, begin, end);
  }

  async readInto(name: string, target: ArrayBufferView): Promise<void> {
    return this.#shardOf(name).readInto(name, target);
  }

  async readRangeInto(name: string, begin: number, target: Uint8Array): Promise<void> {
    await this.#shardOf(name).readRangeInto(name, begin, target);
  }

  async *chunks(name: string, chunkBytes?: number): AsyncGenerator<Uint8Array, void, undefined> {
    yield* this.#shardOf(name).chunks(name, chunkBytes);
  }

  async close(): Promise<void> {
    await closeAll(this.shards.values());
  }

  #shardOf(name: string): SafetensorsReader {
    const shard = this.shards.get(this.#index.fileOf.get(name) ?? "");
    if (shard !== undefined) return shard;
    const message = `no such tensor; the set has ${this.entries.size} tensors`;
    throw new SafetensorsError("tensor_not_found", message, { file: this.#index.file, tensor: name });
  }
}

/**
 * Opens every shard (headers only) and checks that index and shards agree.
 * @throws SafetensorsError `shard_mismatch`, or what a shard's header breaks; all shards are closed then.
 */
export async function openShardedSafetensors(
  index: ShardIndex,
  openSource: (fileName: string) => Promise<ByteSource>,
): Promise<ShardedSafetensorsReader> {
  const shards = new Map<string, SafetensorsReader>();
  try {
    for (const fileName of index.files) {
      const source = await openSource(fileName);
      try {
        shards.set(fileName, await openSafetensors(source));
      } catch (error) {
        await source.close?.();
        throw error;
      }
    }
    checkAgreement(index, shards);
  } catch (error) {
    await closeAll(shards.values());
    throw error;
  }
  return new ShardedSafetensorsReader(index, shards);
}

function checkAgreement(index: ShardIndex, shards: ReadonlyMap<string, SafetensorsReader>): void {
  for (const [tensor, fileName] of index.fileOf) {
    if (shards.get(fileName)?.entries.has(tensor)) continue;
    const message = `the index says it is in ${quote(fileName)}, but that file does not have it`;
    throw new SafetensorsError("shard_mismatch", message, { file: index.file, tensor });
  }
  for (const [fileName, shard] of shards) {
    for (const tensor of shard.entries.keys()) {
      const expected = index.fileOf.get(tensor);
      if (expected === fileName) continue;
      const where = expected === undefined ? "does not know it" : `says it is in ${quote(expected)}`;
      const message = `it is in ${quote(fileName)}, but the index ${where}`;
      throw new SafetensorsError("shard_mismatch", message, { file: index.file, tensor });
    }
  }
}

async function closeAll(readers: Iterable<SafetensorsReader>): Promise<void> {
  await Promise.all([...readers].map((reader) => reader.close()));
}

/** No folders, no drive letters, no ways up: the index comes from strangers. */
function isPlainFileName(name: string): boolean {
  return name !== "" && name !== "." && name !== ".." && !/[/\\:\0]/.test(name);
}
