// Results on disk: one file or a sharded set, atomically, and never over something that is there already unless that
// was asked for. Bytes are streamed; memory does not grow with the model.

import { mkdir, readFile, rm, stat } from "node:fs/promises";
import { join } from "node:path";

import {
  type MetadataInput,
  parseShardIndex,
  saveSafetensorsFile,
  type TensorStream,
} from "../../formats/safetensors/index.node.js";
import { writeFileAtomically } from "../../util/atomic-file.node.js";
import { ConfigError } from "../../util/errors.js";
import { planShards, shardIndexText } from "./shard-plan.js";

export interface OutputOptions {
  /** Replace what is there. */
  readonly force?: boolean;
  readonly metadata?: MetadataInput;
  /** Told of every piece that was written. */
  readonly onBytes?: (bytes: number, tensor: string) => void;
}

export interface Written {
  readonly path: string;
  readonly files: readonly { readonly name: string; readonly sizeBytes: number }[];
  readonly sizeBytes: number;
}

/** @throws ConfigError `tools.output_exists` unless `force`. */
export async function requireFree(path: string, force = false): Promise<void> {
  if (force) return;
  if ((await stat(path).catch(() => undefined)) === undefined) return;
  throw new ConfigError(`${path} exists already; choose another output, or replace it with --force`, {
    code: "tools.output_exists",
    details: { path },
  });
}

/** Writes one safetensors file. */
export async function writeSingle(
  path: string,
  streams: readonly TensorStream[],
  options: OutputOptions = {},
): Promise<Written> {
  await requireFree(path, options.force);
  const sizeBytes = await saveSafetensorsFile(path, watched(streams, options.onBytes), options.metadata);
  return { path, files: [{ name: path, sizeBytes }], sizeBytes };
}

export const INDEX_FILE = "model.safetensors.index.json";

/**
 * Writes `model-00001-of-0000N.safetensors` … and the index into `folder`. The index comes last: without it there is
 * no set, and with it every shard is whole.
 */
export async function writeShards(
  folder: string,
  streams: readonly TensorStream[],
  maxShardBytes: number,
  options: OutputOptions = {},
): Promise<Written> {
  const indexPath = join(folder, INDEX_FILE);
  await requireFree(indexPath, options.force);
  const shards = planShards(streams, maxShardBytes);
  for (const { name } of shards) await requireFree(join(folder, name), options.force);
  const earlier = await shardsOf(indexPath);
  await mkdir(folder, { recursive: true });
  const files: { name: string; sizeBytes: number }[] = [];
  for (const { name, tensors } of shards) {
    const path = join(folder, name);
    const sizeBytes = await saveSafetensorsFile(path, watched(tensors, options.onBytes), options.metadata);
    files.push({ name, sizeBytes });
  }
  const text = shardIndexText(shards);
  await writeFileAtomically(indexPath, text);
  files.push({ name: INDEX_FILE, sizeBytes: Buffer.byteLength(text) });
  // Of a set that was replaced by one with another number of shards.
  for (const name of earlier) {
    if (!files.some((file) => file.name === name)) await rm(join(folder, name), { force: true });
  }
  return { path: folder, files, sizeBytes: files.reduce((sum, file) => sum + file.sizeBytes, 0) };
}

/** Shards that an index in this place names; none where there is no readable index. */
async function shardsOf(indexPath: string): Promise<readonly string[]> {
  try {
    return parseShardIndex(await readFile(indexPath), indexPath).files;
  } catch {
    return [];
  }
}

function watched(
  streams: readonly TensorStream[],
  onBytes: OutputOptions["onBytes"],
): readonly TensorStream[] {
  if (onBytes === undefined) return streams;
  return streams.map((stream) => {
    const { name, data } = stream;
    return {
      ...stream,
      data: async function* () {
        const pieces =
          typeof data === "function"
            ? data()
            : [new Uint8Array(data.buffer, data.byteOffset, data.byteLength)];
        for await (const piece of pieces) {
          yield piece;
          onBytes(piece.byteLength, name);
        }
      },
    };
  });
}
