// Bytes that are written, gathered in memory.

import type { ByteSink } from "../../formats/safetensors/index.js";

export class MemorySink implements ByteSink {
  readonly #chunks: Uint8Array[] = [];

  async write(chunk: Uint8Array): Promise<void> {
    this.#chunks.push(chunk.slice());
  }

  get bytes(): Uint8Array {
    const bytes = new Uint8Array(this.#chunks.reduce((sum, { byteLength }) => sum + byteLength, 0));
    let offset = 0;
    for (const chunk of this.#chunks) {
      bytes.set(chunk, offset);
      offset += chunk.byteLength;
    }
    return bytes;
  }
}
