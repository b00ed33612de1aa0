// Opens whatever a person calls a model: a file, a sharded set, a checkpoint, a run, a folder of the Hugging Face
// layout, an address. Reads headers and manifests only; values are read when a tool asks for them.

import { open, readdir, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import {
  type ByteSource,
  fileSource,
  openSafetensors,
  openSafetensorsFile,
  openShardedSafetensors,
  openShardedSafetensorsFiles,
  parseShardIndex,
  type SafetensorsReader,
  type ShardedSafetensorsReader,
  urlSource,
} from "../../formats/safetensors/index.node.js";
import { type CheckpointInfo, readCheckpointInfo } from "./checkpoint-input.node.js";
import { toolError } from "./errors.js";
import type { SetFile, TensorSet } from "./tensor-set.js";
import { openTorchSet } from "./torch-input.node.js";

export interface OpenOptions {
  /** Replaces the global `fetch` for addresses. */
  readonly fetch?: typeof fetch;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

const INDEX_FILE = "model.safetensors.index.json";
const isAddress = (input: string) => /^https?:\/\//i.test(input);
const isIndexName = (name: string) => name.endsWith(".index.json");
const isTorchName = (name: string) => /\.(pt|pth|bin|ckpt)$/i.test(name);

/**
 * Opens `input`.
 * @throws ToolError `tools.not_found` or `tools.unknown_form`; the error of the format for a file that breaks it.
 */
export async function openTensors(input: string, options: OpenOptions = {}): Promise<TensorSet> {
  if (isAddress(input)) return openAddress(input, options);
  const info = await stat(input).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "ENOENT" && error.code !== "ENOTDIR") throw error;
    throw toolError("not_found", `${input} does not exist; check the path`, { path: input }, error);
  });
  return info.isDirectory() ? openFolder(input) : openFile(input, input);
}

async function openFolder(folder: string): Promise<TensorSet> {
  const names = new Set(await readdir(folder));
  const checkpoint = await readCheckpointInfo(folder);
  if (checkpoint !== undefined) return openCheckpoint(folder, checkpoint);
  for (const name of [INDEX_FILE, "model.safetensors", "pytorch_model.bin"]) {
    if (names.has(name)) return openFile(folder, join(folder, name));
  }
  const candidates = [...names].filter((name) => name.endsWith(".safetensors") || isIndexName(name)).sort();
  const [only] = candidates;
  if (candidates.length === 1 && only !== undefined) return openFile(folder, join(folder, only));
  const what =
    candidates.length === 0
      ? `no checkpoint, no ${INDEX_FILE}, no model.safetensors`
      : `several candidates: ${candidates.slice(0, 5).join(", ")}; name one of them`;
  throw toolError("unknown_form", `${folder}: found no model in this folder (${what})`, { path: folder });
}

async function openCheckpoint(input: string, checkpoint: CheckpointInfo): Promise<TensorSet> {
  const { path, manifest } = checkpoint;
  const parts = new Map<string, SafetensorsReader>();
  const closeAll = async () => {
    for (const reader of parts.values()) await reader.close();
  };
  try {
    for (const file of ["model.safetensors", ...Object.keys(manifest.files)]) {
      const part = /^(.*)\.safetensors$/.exec(file)?.[1];
      if (part !== undefined && !parts.has(part))
        parts.set(part, await openSafetensorsFile(join(path, file)));
    }
  } catch (error) {
    await closeAll();
    throw error;
  }
  const parent = manifest.parent === null ? [] : [["parent", manifest.parent.name] as const];
  return {
    input,
    location: path,
    form: "checkpoint",
    parts,
    metadata: parts.get("model")!.metadata,
    files: Object.entries(manifest.files).map(([name, { sizeBytes }]) => ({ name, sizeBytes })),
    aliases: manifest.aliases,
    checkpoint,
    facts: [
      ["step", String(checkpoint.step)],
      ["run", checkpoint.runId],
      ["written", checkpoint.createdAt],
      ["holds", manifest.kind === "training" ? "a whole training state" : "weights alone"],
      ...parent,
    ],
    close: closeAll,
  };
}

async function openFile(input: string, path: string): Promise<TensorSet> {
  if (isIndexName(path)) return shardedSet(input, path, await openShardedSafetensorsFiles(path));
  if (await isTorchFile(path)) return openTorchSet(input, path, await fileSource(path));
  const reader = await openSafetensorsFile(path);
  return {
    input,
    location: path,
    form: "safetensors",
    parts: new Map([["model", reader]]),
    metadata: reader.metadata,
    files: [{ name: basename(path), sizeBytes: reader.fileSizeBytes }],
    aliases: {},
    facts: [],
    close: () => reader.close(),
  };
}

/** By the first bytes, since names lie: a zip archive, or a pickle where a safetensors header would start later. */
async function isTorchFile(path: string): Promise<boolean> {
  const handle = await open(path, "r");
  try {
    const head = new Uint8Array(9);
    await handle.read(head, 0, head.byteLength, 0);
    const isZip = head[0] === 0x50 && head[1] === 0x4b && head[2] === 3 && head[3] === 4;
    const isPickle = head[0] === 0x80 && head[1]! <= 5 && head[8] !== 0x7b && isTorchName(path);
    return isZip || isPickle;
  } finally {
    await handle.close();
  }
}

async function openAddress(address: string, options: OpenOptions): Promise<TensorSet> {
  let transferred = 0;
  // Counted here, where every answer passes.
  const doFetch = options.fetch ?? fetch;
  const counting: typeof fetch = async (...request) => {
    const response = await doFetch(...request);
    transferred += Number(response.headers.get("content-length") ?? 0);
    return response;
  };
  const sourceOf = (url: string): Promise<ByteSource> =>
    urlSource(url, {
      fetch: counting,
      ...(options.headers === undefined ? {} : { headers: options.headers }),
      ...(options.signal === undefined ? {} : { signal: options.signal }),
    });
  const path = address.replace(/[?#].*$/s, "");
  const source = await reached(address, () => sourceOf(address));
  const transferredBytes = () => transferred;
  if (isIndexName(path)) {
    const index = parseShardIndex(await source.read(0, source.sizeBytes), source.name);
    const query = address.slice(path.length);
    const reader = await openShardedSafetensors(index, (name) =>
      reached(name, () => sourceOf(new URL(encodeURIComponent(name), path).href + query)),
    );
    return { ...shardedSet(address, source.name ?? path, reader), transferredBytes };
  }
  if (isTorchName(path)) {
    return { ...(await openTorchSet(address, source.name ?? path, source)), transferredBytes };
  }
  const reader = await openSafetensors(source);
  return {
    input: address,
    location: source.name ?? path,
    form: "safetensors",
    parts: new Map([["model", reader]]),
    metadata: reader.metadata,
    files: [{ name: basename(path), sizeBytes: source.sizeBytes }],
    aliases: {},
    facts: [],
    transferredBytes,
    close: () => reader.close(),
  };
}

/** A refused connection or an unknown host, said in words. */
async function reached<T>(what: string, run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    const cause = error.cause instanceof Error ? error.cause.message : error.message;
    const name = what.replace(/[?#].*$/s, "").replace(/\/\/[^/@]*@/, "//");
    throw toolError(
      "unreachable",
      `${name} cannot be reached (${cause}); check the address and the network`,
      {
        address: name,
      },
      error,
    );
  }
}

function shardedSet(input: string, location: string, reader: ShardedSafetensorsReader): TensorSet {
  const metadata = new Map<string, string>();
  const files: SetFile[] = [];
  for (const [name, shard] of reader.shards) {
    files.push({ name, sizeBytes: shard.fileSizeBytes });
    for (const [key, value] of shard.metadata) if (!metadata.has(key)) metadata.set(key, value);
  }
  return {
    input,
    location,
    form: "sharded",
    parts: new Map([["model", reader]]),
    metadata,
    files,
    aliases: {},
    facts: [["shards", String(files.length)]],
    close: () => reader.close(),
  };
}
