// Where the content of a file in a commit goes: text that is base64 or plain, which the line may say only after it,
// into a staged file. Short content waits for the answer in memory; long content must be base64.

import { badRequest, tooLarge } from "../errors.js";
import type { SealedFile, StagedFile } from "../store/blobs.js";
import { Base64Decoder } from "./base64-decoder.js";
import type { ContentSink } from "./commit-lines.js";

const MAX_WAITING_BYTES = 2 ** 20;
/** Several pieces of a socket make one write. */
const GATHER_BYTES = 2 ** 18;

export class InlineContent implements ContentSink {
  readonly #file: StagedFile;
  readonly #maxBytes: number;
  #waiting: Uint8Array[] = [];
  #waitingBytes = 0;
  #decoder: Base64Decoder | undefined;

  constructor(file: StagedFile, maxBytes: number) {
    this.#file = file;
    this.#maxBytes = maxBytes;
  }

  async write(text: Uint8Array): Promise<void> {
    // A copy, since the piece belongs to the socket.
    this.#waiting.push(Uint8Array.from(text));
    this.#waitingBytes += text.byteLength;
    const most = this.#decoder === undefined ? MAX_WAITING_BYTES : GATHER_BYTES;
    if (this.#waitingBytes <= most) return;
    this.#decoder ??= new Base64Decoder();
    await this.#store(this.#decoder.push(this.#take()));
  }

  /** `encoding` as the line says it: `base64`, `utf-8` or nothing, which means UTF-8. */
  async finish(encoding: unknown): Promise<SealedFile> {
    const isBase64 = encoding === "base64";
    if (!isBase64 && encoding !== undefined && encoding !== "utf-8") {
      throw badRequest(
        `the encoding ${JSON.stringify(encoding)?.slice(0, 40)} of a file is not base64 or utf-8`,
      );
    }
    if (isBase64) {
      this.#decoder ??= new Base64Decoder();
      await this.#store(this.#decoder.push(this.#take()));
      await this.#store(this.#decoder.finish());
    } else if (this.#decoder !== undefined) {
      throw badRequest(
        `a file of more than ${MAX_WAITING_BYTES} bytes inside a commit must have encoding base64`,
      );
    } else await this.#store(this.#take());
    return { file: this.#file, digest: await this.#file.seal() };
  }

  #take(): Uint8Array {
    const all = this.#waiting.length === 1 ? this.#waiting[0]! : Buffer.concat(this.#waiting);
    this.#waiting = [];
    this.#waitingBytes = 0;
    return all;
  }

  async #store(bytes: Uint8Array): Promise<void> {
    if (this.#file.sizeBytes + bytes.byteLength > this.#maxBytes) {
      throw tooLarge(`a file inside a commit has more than ${this.#maxBytes} bytes; upload it as LFS file`);
    }
    await this.#file.write(bytes);
  }
}
