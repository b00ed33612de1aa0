// A content of a folder repository, opened for reading in parts. The open file outlives its name. Node only.

import type { FileHandle } from "node:fs/promises";
import type { ByteSource } from "../../formats/safetensors/index.js";
import { TransportError } from "./errors.js";
import type { FolderEntry } from "./folder-record.js";
import type { FolderStore } from "./folder-store.node.js";

const MAX_READ_BYTES = 1 << 30;

export class FolderSource implements ByteSource {
  readonly name: string;
  readonly sizeBytes: number;
  readonly #store: FolderStore;
  readonly #handle: FileHandle;
  readonly #signal: AbortSignal | undefined;
  readonly #onClose: () => void;
  #isClosed = false;

  private constructor(
    store: FolderStore,
    handle: FileHandle,
    name: string,
    sizeBytes: number,
    signal: AbortSignal | undefined,
    onClose: () => void,
  ) {
    this.#store = store;
    this.#handle = handle;
    this.name = name;
    this.sizeBytes = sizeBytes;
    this.#signal = signal;
    this.#onClose = onClose;
  }

  /** Throws `corrupt` for a content that is missing or of another size, and for a link in its place. */
  static async open(
    store: FolderStore,
    { blob, sizeBytes }: FolderEntry,
    path: string,
    signal?: AbortSignal,
    onClose: () => void = () => undefined,
  ): Promise<FolderSource> {
    const parts = ["blobs", blob.slice(0, 2), blob];
    const handle = await store.open(...parts);
    const size = (await handle?.stat())?.size;
    if (handle !== undefined && size === sizeBytes)
      return new FolderSource(store, handle, path, sizeBytes, signal, onClose);
    await handle?.close();
    const problem = size === undefined ? "is missing" : `has ${size} bytes instead of ${sizeBytes}`;
    throw new TransportError(
      "corrupt",
      `${path} of file:${store.root} is damaged: ${store.path(...parts)} ${problem}; ` +
        "restore the folder from a copy, or read a newer revision",
      { path },
    );
  }

  async read(offset: number, length: number): Promise<Uint8Array> {
    this.#checkRange(offset, length);
    const target = new Uint8Array(length);
    await this.readInto(offset, target);
    return target;
  }

  async readInto(offset: number, target: Uint8Array): Promise<void> {
    this.#checkRange(offset, target.byteLength);
    for (let done = 0; done < target.byteLength; ) {
      this.#signal?.throwIfAborted();
      if (this.#isClosed) throw new TransportError("unavailable", `${this.name}: the file was closed`);
      const length = Math.min(target.byteLength - done, MAX_READ_BYTES);
      const { bytesRead } = await this.#store.guard(`reading ${this.name}`, () =>
        this.#handle.read(target, done, length, offset + done),
      );
      if (bytesRead === 0) {
        const message = `${this.name} of file:${this.#store.root} ends at ${offset + done} of ${this.sizeBytes} bytes`;
        throw new TransportError("corrupt", message, { path: this.name });
      }
      done += bytesRead;
    }
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#onClose();
    await this.#handle.close();
  }

  #checkRange(offset: number, length: number): void {
    if (offset >= 0 && length >= 0 && offset + length <= this.sizeBytes) return;
    throw new TransportError(
      "invalid",
      `${this.name}: ${length} bytes from ${offset} are not within its ${this.sizeBytes}`,
      { path: this.name },
    );
  }
}
