// A long row of ids that is read by range: bytes of a file, or ids in memory. It knows nothing of blocks,
// samples or splits; those are cut from it by block-dataset.ts.

import { DataError } from "../util/errors.js";
import { byteOverflowError } from "./byte-tokenizer.js";
import type { Tokenizer } from "./types.js";

export type Ids = Uint8Array | Int32Array;

export interface TokenSource {
  /** Number of ids. */
  readonly length: number;
  /** The ids of [start, end). Read-only to the caller. */
  read(start: number, end: number): Ids | Promise<Ids>;
  /** Identifies the content: size and hash. */
  describe(): Record<string, unknown>;
  close(): Promise<void>;
}

/** The same ids modulo `vocabSize`. */
export function wrapIds(source: TokenSource, vocabSize: number): TokenSource {
  const wrap = (ids: Ids): Ids => ids.map((id) => id % vocabSize);
  return {
    length: source.length,
    read: (start, end) => {
      const ids = source.read(start, end);
      return ids instanceof Promise ? ids.then(wrap) : wrap(ids);
    },
    describe: () => ({ ...source.describe(), modulo: vocabSize }),
    close: () => source.close(),
  };
}

const scanBytes = 2 ** 20;

/** Refuses a byte source with a byte that has no id. One pass over the data, and none from 256 ids on. */
export async function checkBytesFit(bytes: TokenSource, vocabSize: number, where: string): Promise<void> {
  if (vocabSize >= 256) return;
  for (let start = 0; start < bytes.length; start += scanBytes) {
    const chunk = await bytes.read(start, Math.min(start + scanBytes, bytes.length));
    const found = chunk.findIndex((byte) => byte >= vocabSize);
    if (found >= 0) throw byteOverflowError(where, chunk[found]!, start + found, vocabSize);
  }
}

/** Text as ids of any tokenizer, with the id index at which the held-out tail starts. */
export interface EncodedText {
  source: TokenSource;
  splitAt: number;
}

/**
 * Runs `tokenizer` over a whole UTF-8 text, head and held-out tail apart, so that the tail is the same text
 * for each tokenizer. The split moves back to the start of a character. Everything is in memory at once;
 * a tokenizer that can stream would take this function's place.
 */
export async function encodeText(options: {
  bytes: TokenSource;
  tokenizer: Tokenizer;
  splitByte: number;
  vocabSize: number;
  where: string;
}): Promise<EncodedText> {
  const { bytes, tokenizer, vocabSize, where } = options;
  const all = await bytes.read(0, bytes.length);
  let splitByte = options.splitByte;
  while (splitByte > 0 && splitByte < all.length && (all[splitByte]! & 0xc0) === 0x80) splitByte--;

  const head = tokenizer.encode(decodeUtf8(all.subarray(0, splitByte), where));
  const tail = tokenizer.encode(decodeUtf8(all.subarray(splitByte), where));
  const ids = new Int32Array(head.length + tail.length);
  ids.set(head);
  ids.set(tail, head.length);

  const bad = ids.findIndex((id) => id < 0 || id >= vocabSize);
  if (bad >= 0) {
    throw new DataError(
      `The tokenizer gave id ${ids[bad]} for token ${bad} of ${where}, outside the vocabulary of ${vocabSize}. ` +
        "Set model.vocab_size to the tokenizer's vocabulary size.",
      { code: "data.id_out_of_range", details: { id: ids[bad], position: bad, vocabSize } },
    );
  }
  const fingerprint = { ...bytes.describe(), tokens: ids.length, tokenizerVocabSize: tokenizer.vocabSize };
  const source: TokenSource = {
    length: ids.length,
    read: (start, end) => ids.subarray(start, end),
    describe: () => fingerprint,
    close: () => bytes.close(),
  };
  return { source, splitAt: head.length };
}

function decodeUtf8(bytes: Ids, where: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes as Uint8Array);
  } catch (cause) {
    throw new DataError(
      `Cannot tokenise ${where}: it is not valid UTF-8. Convert it (for example with iconv), or use the byte ` +
        "tokenizer, which takes any bytes.",
      { code: "data.invalid_utf8", cause },
    );
  }
}
