// Content to upload as a Blob, which the Hub's client and `fetch` take with its size, without having it in memory.

import type { FileContent } from "./contract.js";
import { TransportError } from "./errors.js";

/** Bytes `[start, end)` of a content. A part reads from the content's start and drops what lies before. */
class ContentBlob extends Blob {
  readonly #content: FileContent;
  readonly #path: string;
  readonly #start: number;
  readonly #end: number;

  constructor(content: FileContent, path: string, start: number, end: number) {
    super([]);
    this.#content = content;
    this.#path = path;
    this.#start = start;
    this.#end = end;
  }

  override get size(): number {
    return this.#end - this.#start;
  }

  override slice(start = 0, end = this.size): ContentBlob {
    const from = this.#start + clamp(start, this.size);
    return new ContentBlob(
      this.#content,
      this.#path,
      from,
      Math.max(from, this.#start + clamp(end, this.size)),
    );
  }

  override stream(): ReturnType<Blob["stream"]> {
    const pieces = this.#pieces();
    return new ReadableStream<Uint8Array<ArrayBuffer>>(
      {
        async pull(controller) {
          const { done, value } = await pieces.next();
          if (done) controller.close();
          else controller.enqueue(value as Uint8Array<ArrayBuffer>);
        },
        async cancel() {
          await pieces.return(undefined);
        },
      },
      { highWaterMark: 0 },
    ) as ReturnType<Blob["stream"]>;
  }

  override async arrayBuffer(): Promise<ArrayBuffer> {
    const bytes = new Uint8Array(this.size);
    let at = 0;
    for await (const piece of this.#pieces()) {
      bytes.set(piece, at);
      at += piece.byteLength;
    }
    return bytes.buffer;
  }

  override async text(): Promise<string> {
    return new TextDecoder().decode(await this.arrayBuffer());
  }

  async *#pieces(): AsyncGenerator<Uint8Array, undefined> {
    if (this.size === 0) return undefined;
    let position = 0;
    for await (const chunk of this.#content.chunks()) {
      const from = Math.max(0, this.#start - position);
      const to = Math.min(chunk.byteLength, this.#end - position);
      position += chunk.byteLength;
      if (position > this.#content.sizeBytes) break;
      if (to > from) yield chunk.subarray(from, to);
      if (position >= this.#end && this.#end < this.#content.sizeBytes) return undefined;
    }
    if (position === this.#content.sizeBytes) return undefined;
    throw new TransportError(
      "invalid",
      `${this.#path}: the content has another size than the ${this.#content.sizeBytes} bytes that it was said to have`,
      { path: this.#path },
    );
  }
}

export function contentBlob(content: FileContent, path: string): Blob {
  return new ContentBlob(content, path, 0, content.sizeBytes);
}

/** The same bytes; `touch` is called whenever some of them are taken. */
export function watchedBlob(blob: Blob, touch: () => void): Blob {
  return new ContentBlob(
    {
      sizeBytes: blob.size,
      async *chunks() {
        const reader = blob.stream().getReader();
        try {
          for (let next = await reader.read(); !next.done; next = await reader.read()) {
            touch();
            yield next.value;
          }
        } finally {
          await reader.cancel();
        }
      },
    },
    "upload",
    0,
    blob.size,
  );
}

function clamp(position: number, size: number): number {
  return position < 0 ? Math.max(0, size + position) : Math.min(position, size);
}
