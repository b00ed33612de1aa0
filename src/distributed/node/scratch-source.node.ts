// A file of the scratch room to read from. This process has just written it, so that its pages are in memory as a rule:
// reads go straight to the system, since the way through the thread pool takes longer than the copy. A piece that must
// come from the disk stops the thread for as long as that takes.

import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { SafetensorsError, truncatedError } from "../../formats/safetensors/errors.js";
import type { ByteSource } from "../../formats/safetensors/index.js";

/** Close it after use. Errors of the file system pass through. */
export async function scratchSource(path: string): Promise<Required<ByteSource>> {
  return new ScratchSource(path);
}

class ScratchSource implements Required<ByteSource> {
  readonly name: string;
  readonly sizeBytes: number;
  readonly #fd: number;
  #isClosed = false;

  constructor(path: string) {
    this.name = path;
    this.#fd = openSync(path, "r");
    try {
      this.sizeBytes = fstatSync(this.#fd).size;
    } catch (error) {
      closeSync(this.#fd);
      throw error;
    }
  }

  async read(offset: number, length: number): Promise<Uint8Array> {
    const target = new Uint8Array(length);
    await this.readInto(offset, target);
    return target;
  }

  async readInto(offset: number, target: Uint8Array): Promise<void> {
    if (this.#isClosed) throw new SafetensorsError("source", "the file is closed", { file: this.name });
    for (let done = 0; done < target.byteLength; ) {
      const bytesRead = readSync(this.#fd, target, done, target.byteLength - done, offset + done);
      if (bytesRead === 0)
        throw truncatedError(offset + done, offset + target.byteLength, { file: this.name, offset });
      done += bytesRead;
    }
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    closeSync(this.#fd);
  }
}
