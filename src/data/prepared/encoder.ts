// Node only. Text to ids, in a form that can also be made in a worker thread: a plain description in, a tokenizer out.

import { createHash } from "node:crypto";
import { ByteTokenizer } from "../byte-tokenizer.js";
import { JsonTokenizer } from "../tokenizers/json-tokenizer.js";
import { tokenizerDigest } from "../tokenizers/open-tokenizer.js";
import type { Tokenizer } from "../types.js";

export interface Encoder {
  readonly tokenizer: Tokenizer;
  /** All ids are below this, the one that ends a document included. */
  readonly vocabSize: number;
  /** Put after each document; null: nothing is. */
  readonly endOfText: number | null;
  /** Equal for tokenizers that give the same ids. */
  readonly fingerprint: string;
  /** How another thread makes the same tokenizer; undefined if it cannot. */
  readonly spec?: EncoderSpec | undefined;
}

/** Structured-cloneable. */
export type EncoderSpec =
  | { readonly kind: "bytes"; readonly vocabSize: number; readonly overflow: "refuse" | "modulo" }
  | { readonly kind: "json"; readonly source: string };

export function tokenizerOf(spec: EncoderSpec): Tokenizer {
  return spec.kind === "bytes" ? new ByteTokenizer(spec) : new JsonTokenizer(spec.source);
}

/** The encoder of a tokenizer that may be anybody's. */
export function encoderOf(tokenizer: Tokenizer, endOfText: number | null): Encoder {
  const vocabSize = Math.max(tokenizer.vocabSize, (endOfText ?? -1) + 1);
  // A subclass may encode differently.
  if (tokenizer instanceof ByteTokenizer && tokenizer.constructor === ByteTokenizer) {
    const { overflow, vocabSize: ids } = tokenizer;
    const spec = { kind: "bytes", vocabSize: ids, overflow } as const;
    return { tokenizer, vocabSize, endOfText, fingerprint: `bytes ${ids} ${overflow}`, spec };
  }
  if (tokenizer instanceof JsonTokenizer && tokenizer.constructor === JsonTokenizer) {
    const spec = { kind: "json", source: tokenizer.source } as const;
    const fingerprint = `tokenizer.json ${tokenizerDigest(tokenizer)}`;
    return { tokenizer, vocabSize, endOfText, fingerprint, spec };
  }
  return { tokenizer, vocabSize, endOfText, fingerprint: probed(tokenizer) };
}

// Letters, numbers, blanks, accents, scripts, signs: what tokenizers treat differently.
const probe =
  "The quick brown fox didn't jump 1,234.5 times;\r\n\tnaïve cafés — “quoted” 'text'\n\n  indented(x) = {y: [1, 2]}\n" +
  "Съешь же ещё этих мягких французских булок. 早く走る。 مرحبا 🙂👩‍🚀 https://example.org/a?b=c#d\n";

/** What a tokenizer does to one text tells it from most others; its files would tell it from all. */
function probed(tokenizer: Tokenizer): string {
  let ids = "";
  try {
    ids = Array.from(tokenizer.encode(probe)).join(" ");
  } catch {
    // It takes certain texts only.
  }
  return `custom ${tokenizer.vocabSize} ${createHash("sha256").update(ids).digest("hex")}`;
}
