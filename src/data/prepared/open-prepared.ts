// Node only. Reads a folder that `prepareCorpus` wrote. A small corpus is held in memory and its hashes are checked; of a
// larger one only what is asked for is read.

import { createHash } from "node:crypto";
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { DataError } from "../../util/errors.js";
import { localFile } from "../sources/local-file.js";
import type { OpenFile } from "../sources/source-file.js";
import type { Ids } from "../token-source.js";
import { type Manifest, manifestName, parseManifest } from "./manifest.js";
import type { TokenCorpus } from "./token-corpus.js";

export interface OpenPreparedOptions {
  /** Corpora up to this size are held in memory. Default 64 MiB. */
  readonly memoryLimitBytes?: number | undefined;
}

export interface PreparedCorpus extends TokenCorpus {
  readonly manifest: Manifest;
}

/** Undefined if the folder has no manifest. */
export async function readManifest(directory: string): Promise<Manifest | undefined> {
  const path = join(directory, manifestName);
  const text = await readFile(path, "utf8").catch((cause: NodeJS.ErrnoException) => {
    if (cause.code === "ENOENT" || cause.code === "ENOTDIR") return undefined;
    throw new DataError(`"${path}" cannot be read: ${cause.message}.`, { code: "data.unreadable", cause });
  });
  return text === undefined ? undefined : parseManifest(text, directory);
}

/** Throws DataError for a folder without prepared data, for damaged data, and for none at all. */
export async function openPrepared(
  directory: string,
  options: OpenPreparedOptions = {},
): Promise<PreparedCorpus> {
  const manifest = await readManifest(directory);
  if (manifest === undefined)
    throw new DataError(
      `"${directory}" holds no prepared data: it has no ${manifestName}. Make it with speedtronic data prepare.`,
      { code: "data.not_prepared", details: { directory } },
    );
  const { dtype, tokens, shards } = manifest;
  const idBytes = dtype === "uint16" ? 2 : 4;
  const documentStarts = await readStarts(directory, manifest);
  for (const shard of shards) await checkSize(directory, shard.file, shard.tokens * idBytes);
  const { memoryLimitBytes = 2 ** 26 } = options;
  const reader =
    tokens * idBytes <= memoryLimitBytes
      ? await inMemory(directory, manifest)
      : byRange(directory, manifest, idBytes);
  const { content_sha256, documents, end_of_text, vocab_size, tokenizer } = manifest;
  const description = { tokens, documents, sha256: content_sha256, tokenizer };
  return {
    length: tokens,
    vocabSize: vocab_size,
    endOfText: end_of_text,
    documentStarts,
    manifest,
    describe: () => description,
    ...reader,
  };
}

async function readStarts(directory: string, manifest: Manifest): Promise<Float64Array> {
  const { file, sha256 } = manifest.documents_file;
  const lengths = await readChecked(directory, file, sha256, manifest.documents * 4);
  const starts = new Float64Array(manifest.documents + 1);
  const data = new DataView(lengths.buffer, lengths.byteOffset, lengths.byteLength);
  for (let i = 0; i < manifest.documents; i++) starts[i + 1] = starts[i]! + data.getUint32(i * 4, true);
  if (starts.at(-1) !== manifest.tokens) throw damaged(directory, file, "its documents have other lengths");
  return starts;
}

type Reader = Pick<TokenCorpus, "read" | "close">;

async function inMemory(directory: string, manifest: Manifest): Promise<Reader> {
  const { dtype, tokens, shards } = manifest;
  const ids = dtype === "uint16" ? new Uint16Array(tokens) : new Uint32Array(tokens);
  let done = 0;
  for (const { file, sha256, tokens: count } of shards) {
    const bytes = await readChecked(directory, file, sha256, count * ids.BYTES_PER_ELEMENT);
    ids.set(idsOf(bytes, dtype), done);
    done += count;
  }
  return { read: (start, end) => new Int32Array(ids.subarray(start, end)), close: async () => {} };
}

function byRange(directory: string, manifest: Manifest, idBytes: number): Reader {
  const { dtype, shards, tokens_per_shard: perShard } = manifest;
  const files = new Map<number, Promise<OpenFile>>();
  let isClosed = false;
  const fileOf = (shard: number): Promise<OpenFile> => {
    const known = files.get(shard);
    if (known !== undefined) return known;
    const opening = localFile(join(directory, shards[shard]!.file)).then((file) => file.open());
    files.set(shard, opening);
    return opening;
  };
  const readPart = async (shard: number, start: number, end: number): Promise<Ids> => {
    if (isClosed) throw new DataError(`"${directory}" was closed.`, { code: "data.closed" });
    const file = await fileOf(shard);
    return new Int32Array(idsOf(await file.read(start * idBytes, end * idBytes), dtype));
  };
  return {
    async read(start, end) {
      const ids = new Int32Array(end - start);
      for (let at = start; at < end; ) {
        const shard = Math.floor(at / perShard);
        const first = shard * perShard;
        const stop = Math.min(end, first + perShard);
        ids.set(await readPart(shard, at - first, stop - first), at - start);
        at = stop;
      }
      return ids;
    },
    async close() {
      isClosed = true;
      const open = await Promise.allSettled(files.values());
      files.clear();
      await Promise.all(open.map((file) => (file.status === "fulfilled" ? file.value.close() : undefined)));
    },
  };
}

/** Files are little-endian, and so is every machine that Node runs on with this library's engine. */
function idsOf(bytes: Uint8Array, dtype: Manifest["dtype"]): Uint16Array | Uint32Array {
  const { buffer, byteOffset, byteLength } = bytes;
  return dtype === "uint16"
    ? new Uint16Array(buffer, byteOffset, byteLength / 2)
    : new Uint32Array(buffer, byteOffset, byteLength / 4);
}

async function readChecked(
  directory: string,
  file: string,
  sha256: string,
  sizeBytes: number,
): Promise<Uint8Array> {
  await checkSize(directory, file, sizeBytes);
  const open = await (await localFile(join(directory, file))).open();
  try {
    const bytes = await open.read(0, sizeBytes);
    if (createHash("sha256").update(bytes).digest("hex") === sha256) return bytes;
    throw damaged(directory, file, "its hash is another");
  } finally {
    await open.close();
  }
}

async function checkSize(directory: string, file: string, sizeBytes: number): Promise<void> {
  const stats = await stat(join(directory, file)).catch(() => undefined);
  if (stats === undefined) throw damaged(directory, file, "it is missing");
  if (stats.size !== sizeBytes) throw damaged(directory, file, `it has ${stats.size} of ${sizeBytes} bytes`);
}

function damaged(directory: string, file: string, what: string): DataError {
  return new DataError(
    `"${directory}" is damaged: ${file} is not as ${manifestName} says (${what}). Run speedtronic data prepare again.`,
    { code: "data.damaged", details: { directory, file } },
  );
}
