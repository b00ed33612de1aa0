// Node only. Encodes batches of texts, in this thread or in several others. Answers come in the order of the questions,
// and a text is always encoded by itself, so that the result does not depend on who encodes what.

import type { Worker } from "node:worker_threads";
import { DataError, InternalError } from "../../util/errors.js";
import { startWorker } from "../../util/worker.node.js";
import { type EncodedTexts, encodeTexts } from "./encode-texts.js";
import type { EncodeReply, EncodeRequest } from "./encode-thread.js";
import type { Encoder } from "./encoder.js";

export interface EncodePool {
  /** Batches that are worth having under way. */
  readonly depth: number;
  encode(texts: readonly string[]): Promise<EncodedTexts>;
  close(): Promise<void>;
}

/** Threads only where there are several workers and the encoder can be made there. */
export function openEncodePool(encoder: Encoder, workers: number): EncodePool {
  const { spec, tokenizer } = encoder;
  if (workers <= 1 || spec === undefined)
    return { depth: 1, encode: async (texts) => encodeTexts(tokenizer, texts), close: async () => {} };
  const threads = Array.from(
    { length: workers },
    () =>
      new EncodeThread(
        startWorker(new URL("./encode-thread.js", import.meta.url), "speedtronic-encode"),
        spec,
      ),
  );
  return {
    depth: 2 * workers,
    encode: (texts) => threads.reduce((least, one) => (one.load < least.load ? one : least)).encode(texts),
    close: async () => {
      await Promise.all(threads.map((thread) => thread.close()));
    },
  };
}

interface Pending {
  resolve(encoded: EncodedTexts): void;
  reject(error: Error): void;
}

class EncodeThread {
  readonly #worker: Worker;
  /** In order: a thread answers what it is asked one after the other. */
  readonly #pending: Pending[] = [];
  #ended: Error | undefined;

  constructor(worker: Worker, spec: NonNullable<Encoder["spec"]>) {
    this.#worker = worker;
    worker.on("message", (reply: EncodeReply) => this.#settle(reply));
    worker.on("error", (cause) => this.#end("an encoding thread failed", cause));
    worker.on("exit", () => this.#end("an encoding thread has ended"));
    worker.postMessage({ spec } satisfies EncodeRequest);
  }

  /** Texts that wait for their ids. */
  get load(): number {
    return this.#pending.length;
  }

  encode(texts: readonly string[]): Promise<EncodedTexts> {
    if (this.#ended !== undefined) return Promise.reject(this.#ended);
    return new Promise((resolve, reject) => {
      this.#pending.push({ resolve, reject });
      this.#worker.postMessage({ texts } satisfies EncodeRequest);
    });
  }

  async close(): Promise<void> {
    this.#end("the encoding threads were closed");
    await this.#worker.terminate();
  }

  #settle(reply: EncodeReply): void {
    const pending = this.#pending.shift();
    if ("error" in reply) {
      const { message, code, details } = reply.error;
      pending?.reject(new DataError(message, { code, details }));
    } else pending?.resolve(reply);
  }

  #end(what: string, cause?: unknown): void {
    this.#ended ??= new InternalError(what, { code: "internal.encode_thread", cause });
    for (const { reject } of this.#pending.splice(0)) reject(this.#ended);
  }
}
