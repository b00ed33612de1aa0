// Node only. Plain text in UTF-8: a file is one document, or holds several with a separator between them. Texts of many
// megabytes come in pieces, which end where their content says, never where a chunk happens to end.

import { unpackedChunks } from "./decompress.js";
import type { RawRecord, SourceFormat } from "./format.js";
import { splitBytes } from "./split-bytes.js";

/** No piece is larger, and a text that is not larger is one piece. */
const pieceBytes = 2 ** 22;
/** A document between separators is read as a whole. */
const longestDocumentBytes = 2 ** 28;

export const textFormat: SourceFormat = {
  unit: "document",

  async *read(file, skip, { separator, chunkBytes }) {
    const chunks = unpackedChunks(file, chunkBytes);
    let count = 0;
    if (separator === null) {
      for await (const { bytes, isContinued } of pieces(chunks))
        if (count++ >= skip) yield decode(bytes, isContinued);
      return count;
    }
    const mark = new TextEncoder().encode(separator);
    for await (const { bytes, isTooLong } of splitBytes(chunks, mark, longestDocumentBytes)) {
      if (isTooLong) {
        const reason = `it has more than ${longestDocumentBytes} bytes without a separator`;
        if (count++ >= skip) yield { kind: "bad", reason };
        continue;
      }
      for (let start = 0; ; ) {
        const end = bytes.length - start <= pieceBytes ? bytes.length : start + cutOf(bytes.subarray(start));
        if (count++ >= skip) yield decode(bytes.subarray(start, end), end < bytes.length);
        if (end === bytes.length) break;
        start = end;
      }
    }
    return count;
  },
};

interface Piece {
  readonly bytes: Uint8Array;
  readonly isContinued: boolean;
}

/** A whole file. */
async function* pieces(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Piece, void, undefined> {
  // One byte more than a piece: whether a text goes on decides where it is cut.
  const held = new Uint8Array(pieceBytes + 1);
  let length = 0;
  for await (const chunk of chunks) {
    for (let taken = 0; taken < chunk.length; ) {
      const part = chunk.subarray(taken, taken + held.length - length);
      held.set(part, length);
      length += part.length;
      taken += part.length;
      if (length < held.length) continue;
      const end = cutOf(held);
      yield { bytes: held.subarray(0, end), isContinued: true };
      held.copyWithin(0, end, length);
      length -= end;
    }
  }
  if (length > 0) yield { bytes: held.subarray(0, length), isContinued: false };
}

/**
 * Where the first piece of a longer text ends: if possible after the end of a line whose next begins with no blank, since
 * no tokenizer that splits at words joins across that. Otherwise before a character.
 */
function cutOf(bytes: Uint8Array): number {
  for (let at = pieceBytes; at > pieceBytes / 2; at--)
    if (bytes[at - 1] === 0x0a && !isBlank(bytes[at]!)) return at;
  let at = pieceBytes;
  while (at > pieceBytes - 4 && (bytes[at]! & 0xc0) === 0x80) at--;
  return at;
}

function isBlank(byte: number): boolean {
  return byte === 0x20 || (byte >= 0x09 && byte <= 0x0d) || byte >= 0x80;
}

// A byte-order mark is a character like any other, as it is to the byte tokenizer.
const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function decode(bytes: Uint8Array, isContinued: boolean): RawRecord {
  if (bytes.length === 0) return { kind: "empty" };
  try {
    return { kind: "text", text: utf8.decode(bytes), isContinued };
  } catch {
    return { kind: "bad", reason: "it is not valid UTF-8" };
  }
}
