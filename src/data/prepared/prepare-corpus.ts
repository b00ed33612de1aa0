// Node only. Tokenises documents into a folder of ids. The bytes of its files follow from documents and encoder alone:
// neither the number of workers nor the speed of anything shows in them. Each file appears complete or not at all, the
// manifest last.

import { createHash } from "node:crypto";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import {
  type FileSink,
  sweepStaleTemporaries,
  writeFileAtomically,
  writeStreamAtomically,
} from "../../util/atomic-file.node.js";
import { DataError } from "../../util/errors.js";
import { makeFolders } from "../../util/folders.node.js";
import type { DocumentSource } from "../documents.js";
import type { BadRecord } from "../sources/bad-records.js";
import { type EncodedDocuments, encodeDocuments, limitTokens } from "./encode-documents.js";
import { openEncodePool } from "./encode-pool.js";
import type { Encoder } from "./encoder.js";
import { documentsName, type Manifest, manifestName, newManifest, shardName } from "./manifest.js";
import { readManifest } from "./open-prepared.js";

export interface PrepareOptions {
  readonly source: DocumentSource;
  readonly encoder: Encoder;
  readonly directory: string;
  /** Threads that encode. Default 1: this one. */
  readonly workers?: number | undefined;
  /** What the source has reported so far; read at the end. */
  readonly badRecords?:
    | (() => { readonly count: number; readonly examples: readonly BadRecord[] })
    | undefined;
  readonly onProgress?: ((done: { readonly documents: number; readonly tokens: number }) => void) | undefined;
  /** Only so many ids, from the beginning; null: all of them. */
  readonly maxTokens?: number | null | undefined;
  /** Default 2^26. */
  readonly tokensPerShard?: number | undefined;
}

export interface Prepared {
  readonly manifest: Manifest;
  /** The folder held the same already; nothing was written. */
  readonly wasThere: boolean;
}

/**
 * Throws DataError for a folder that holds something else, for documents that cannot be read, for ids outside the
 * vocabulary and for no ids at all; FileWriteError for what cannot be written.
 */
export async function prepareCorpus(options: PrepareOptions): Promise<Prepared> {
  const { source, encoder, directory, workers = 1, maxTokens = null, tokensPerShard = 2 ** 26 } = options;
  const fingerprint = await source.fingerprint();
  const there = await readManifest(directory);
  if (there !== undefined) {
    const isSame =
      there.source === fingerprint &&
      there.tokenizer === encoder.fingerprint &&
      there.end_of_text === encoder.endOfText &&
      there.max_tokens === maxTokens &&
      there.tokens_per_shard === tokensPerShard;
    if (isSame) return { manifest: there, wasThere: true };
    throw new DataError(
      `"${directory}" holds other prepared data: of other documents, of fewer or more of them, or by another tokenizer. Name an empty folder, or remove it.`,
      { code: "data.folder_taken", details: { directory } },
    );
  }
  makeFolders(directory);
  await refuseForeign(directory);
  await sweepStaleTemporaries(directory);

  const pool = openEncodePool(encoder, workers);
  try {
    const all = encodeDocuments(source, encoder, pool);
    const encoded = maxTokens === null ? all : limitTokens(all, maxTokens);
    const written = await writeShards(options, encoded, tokensPerShard);
    const bad = options.badRecords?.() ?? { count: 0, examples: [] };
    const manifest = newManifest({
      ...written,
      vocab_size: encoder.vocabSize,
      end_of_text: encoder.endOfText,
      tokenizer: encoder.fingerprint,
      source: fingerprint,
      max_tokens: maxTokens,
      tokens_per_shard: tokensPerShard,
      bad_records: { count: bad.count, examples: [...bad.examples] },
    });
    await writeFileAtomically(join(directory, manifestName), `${JSON.stringify(manifest, null, 2)}\n`);
    return { manifest, wasThere: false };
  } finally {
    await pool.close();
  }
}

/** What a run that was stopped left behind is written over; anything else is not ours. */
async function refuseForeign(directory: string): Promise<void> {
  const isOurs = (name: string) =>
    /^tokens-[0-9]{5,}\.bin$/.test(name) || name === documentsName || /^\..+\.tmp$/.test(name);
  const foreign = (await readdir(directory)).find((name) => !isOurs(name));
  if (foreign === undefined) return;
  throw new DataError(
    `"${directory}" is not empty: it holds ${JSON.stringify(foreign)}. Name an empty folder for prepared data.`,
    { code: "data.folder_taken", details: { directory, file: foreign } },
  );
}

type Written = Pick<
  Manifest,
  "dtype" | "tokens" | "documents" | "content_sha256" | "shards" | "documents_file"
>;

async function writeShards(
  { source, encoder, directory, onProgress }: PrepareOptions,
  encoded: AsyncGenerator<EncodedDocuments, void, undefined>,
  tokensPerShard: number,
): Promise<Written> {
  const dtype = encoder.vocabSize <= 2 ** 16 ? "uint16" : "uint32";
  const shards: Manifest["shards"] = [];
  let documents = 0;
  let tokens = 0;
  const documentsHash = createHash("sha256");
  try {
    await writeStreamAtomically(join(directory, documentsName), async (documentsSink) => {
      const rest = new IdStream(encoded, async ({ ids, lengths }) => {
        checkIds(ids, encoder.vocabSize, source.label);
        const bytes = new Uint8Array(lengths.buffer, lengths.byteOffset, lengths.byteLength);
        documentsHash.update(bytes);
        await documentsSink.write(bytes);
        documents += lengths.length;
        tokens += ids.length;
        onProgress?.({ documents, tokens });
      });
      while (!(await rest.isOver())) {
        const file = shardName(shards.length);
        const hash = createHash("sha256");
        let count = 0;
        await writeStreamAtomically(join(directory, file), async (sink: FileSink) => {
          for (
            let ids = await rest.take(tokensPerShard);
            ids !== undefined;
            ids = await rest.take(tokensPerShard - count)
          ) {
            const packed = dtype === "uint16" ? new Uint16Array(ids) : new Uint32Array(ids);
            const bytes = new Uint8Array(packed.buffer);
            hash.update(bytes);
            await sink.write(bytes);
            count += ids.length;
          }
        });
        shards.push({ file, tokens: count, sha256: hash.digest("hex") });
      }
      // In here, so that nothing is left of a file without content.
      if (tokens === 0)
        throw new DataError(
          `${source.label} has no text: not one token came of it. Name files with text in them.`,
          { code: "data.empty", details: { label: source.label } },
        );
    });
  } finally {
    await encoded.return();
  }
  const documentsSha256 = documentsHash.digest("hex");
  const content = createHash("sha256").update(
    JSON.stringify([dtype, shards.map(({ sha256 }) => sha256), documentsSha256]),
  );
  return {
    dtype,
    tokens,
    documents,
    content_sha256: content.digest("hex"),
    shards,
    documents_file: { file: documentsName, sha256: documentsSha256 },
  };
}

/** Ids as they come, taken in portions that fit a shard. */
class IdStream {
  readonly #source: AsyncGenerator<EncodedDocuments, void, undefined>;
  readonly #onBatch: (batch: EncodedDocuments) => Promise<void>;
  #ids: Int32Array = new Int32Array(0);

  constructor(
    source: AsyncGenerator<EncodedDocuments, void, undefined>,
    onBatch: (batch: EncodedDocuments) => Promise<void>,
  ) {
    this.#source = source;
    this.#onBatch = onBatch;
  }

  async isOver(): Promise<boolean> {
    while (this.#ids.length === 0) {
      const step = await this.#source.next();
      if (step.done === true) return true;
      await this.#onBatch(step.value);
      this.#ids = step.value.ids;
    }
    return false;
  }

  /** Up to `most` ids; undefined when there is none, or none is wanted. */
  async take(most: number): Promise<Int32Array | undefined> {
    if (most === 0 || (await this.isOver())) return undefined;
    const taken = this.#ids.subarray(0, most);
    this.#ids = this.#ids.subarray(taken.length);
    return taken;
  }
}

function checkIds(ids: Int32Array, vocabSize: number, label: string): void {
  const bad = ids.findIndex((id) => id < 0 || id >= vocabSize);
  if (bad < 0) return;
  throw new DataError(
    `The tokenizer gave id ${ids[bad]} for ${label}, outside its vocabulary of ${vocabSize}. Its files do not belong together.`,
    { code: "data.id_out_of_range", details: { id: ids[bad], vocabSize } },
  );
}
