// Node only. The inside of an encoding thread: is told once how to encode, then answers batches of texts in order.

import { parentPort } from "node:worker_threads";
import { type ErrorDetails, invariant, SpeedtronicError } from "../../util/errors.js";
import type { Tokenizer } from "../types.js";
import { type EncodedTexts, encodeTexts } from "./encode-texts.js";
import { type EncoderSpec, tokenizerOf } from "./encoder.js";

export type EncodeRequest = { readonly spec: EncoderSpec } | { readonly texts: readonly string[] };

export type EncodeReply =
  | EncodedTexts
  | { readonly error: { readonly message: string; readonly code: string; readonly details: ErrorDetails } };

const port = parentPort;
invariant(port, "an encoding thread has somebody who asks");
let tokenizer: Promise<Tokenizer> | undefined;
let answered: Promise<void> = Promise.resolve();

port.on("message", (request: EncodeRequest) => {
  if ("spec" in request) {
    tokenizer = Promise.resolve().then(() => tokenizerOf(request.spec));
    // The answer to a batch says what went wrong.
    tokenizer.catch(() => undefined);
    return;
  }
  const { texts } = request;
  answered = answered.then(() => answer(texts));
});

async function answer(texts: readonly string[]): Promise<void> {
  try {
    invariant(tokenizer, "the encoder is named before the texts");
    const encoded = encodeTexts(await tokenizer, texts);
    port?.postMessage(encoded, [encoded.ids.buffer as ArrayBuffer, encoded.lengths.buffer as ArrayBuffer]);
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    const { code, details } =
      error instanceof SpeedtronicError ? error : { code: "data.encoding_failed", details: {} };
    port?.postMessage({ error: { message, code, details } } satisfies EncodeReply);
  }
}
