// Several texts to one row of ids: what an encoding thread does, and this one where there is none.

import type { Tokenizer } from "../types.js";

export interface EncodedTexts {
  /** Of all texts, one after the other. */
  readonly ids: Int32Array;
  /** Ids of each text. */
  readonly lengths: Uint32Array;
}

export function encodeTexts(tokenizer: Tokenizer, texts: readonly string[]): EncodedTexts {
  const parts = texts.map((text) => tokenizer.encode(text));
  const lengths = Uint32Array.from(parts, (part) => part.length);
  const ids = new Int32Array(lengths.reduce((sum, length) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    ids.set(part, at);
    at += part.length;
  }
  return { ids, lengths };
}
