// A file of the scratch room to read from. The thread pool does the reading: even where the pages are in memory, the copy
// runs beside the arithmetic of this thread, which asks ahead.

import { closeSync, fstatSync, openSync, read } from "node:fs";
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
      const bytesRead = await this.#readSome(target.subarray(done), offset + done);
      if (bytesRead === 0)
        throw truncatedError(offset + done, offset + target.byteLength, { file: this.name, offset });
      done += bytesRead;
    }
  }

  /** Not by a FileHandle, whose promises cost as much as a piece takes to copy. */
  #readSome(target: Uint8Array, position: number): Promise<number> {
    return new Promise((resolve, reject) => {
      read(this.#fd, target, 0, target.byteLength, position, (error, bytesRead) => {
        if (error === null) resolve(bytesRead);
        else reject(error);
      });
    });
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    closeSync(this.#fd);
  }
}
