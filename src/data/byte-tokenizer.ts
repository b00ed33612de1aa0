// The tokenizer that needs no file: one id per byte of the UTF-8 text. Reversible for every vocabulary of
// 256 or more. It never looks at characters, so it also reads files that are not valid UTF-8.

import { DataError } from "../util/errors.js";
import type { TextDecoderStream, Tokenizer } from "./types.js";

export interface ByteTokenizerOptions {
  /** Ids the model knows; below 256 not every byte can be encoded. Default 256. */
  vocabSize?: number;
  /** What `encode` does with a byte that has no id: `refuse` (DataError) or wrap around by `modulo`. */
  overflow?: "refuse" | "modulo";
}

export class ByteTokenizer implements Tokenizer {
  readonly vocabSize: number;
  readonly overflow: "refuse" | "modulo";

  constructor(options: ByteTokenizerOptions = {}) {
    this.vocabSize = Math.min(options.vocabSize ?? 256, 256);
    this.overflow = options.overflow ?? "refuse";
  }

  /** Lone surrogates, which UTF-8 cannot hold, are encoded as U+FFFD. */
  encode(text: string): Int32Array {
    const ids = new Int32Array(new TextEncoder().encode(text));
    if (this.overflow === "modulo") return ids.map((byte) => byte % this.vocabSize);
    const offset = ids.findIndex((byte) => byte >= this.vocabSize);
    if (offset >= 0) throw byteOverflowError("the text to encode", ids[offset]!, offset, this.vocabSize);
    return ids;
  }

  /** Ids that are no bytes, which an undertrained model may sample, become U+FFFD. */
  decode(ids: ArrayLike<number>): string {
    return newUtf8Decoder().decode(Uint8Array.from(ids, toByte));
  }

  decoder(): TextDecoderStream {
    const utf8 = newUtf8Decoder();
    return {
      push: (id) => utf8.decode(Uint8Array.of(toByte(id)), { stream: true }),
      end: () => utf8.decode(),
    };
  }
}

/** The complaint about a byte without an id, for text in memory and in files. */
export function byteOverflowError(where: string, byte: number, offset: number, vocabSize: number): DataError {
  const hex = `0x${byte.toString(16).padStart(2, "0")}`;
  return new DataError(
    `The vocabulary is too small for the tokenizer: ${where} has byte ${byte} (${hex}) at offset ${offset}, ` +
      `but the largest id of a vocabulary of ${vocabSize} is ${vocabSize - 1}. ` +
      "Set model.vocab_size to 256 or more, so that each byte has an id of its own.",
    { code: "data.vocabulary_too_small", details: { id: byte, offset, vocabSize } },
  );
}

// A byte-order mark is three bytes like any other.
function newUtf8Decoder(): TextDecoder {
  return new TextDecoder("utf-8", { ignoreBOM: true });
}

// 0xff occurs nowhere in UTF-8, so the decoder turns it into one U+FFFD.
function toByte(id: number): number {
  return Number.isInteger(id) && id >= 0 && id < 256 ? id : 0xff;
}
