// Contents on their way into a folder repository: written under names that nobody knows yet, then named by a commit
// record, kept for the next try, or removed. Node only.

import { createHash, randomBytes } from "node:crypto";
import type { FileContent, RepoOperation } from "./contract.js";
import { TransportError } from "./errors.js";
import { contentIdOf, type FolderEntry, type FolderTree } from "./folder-record.js";
import type { FolderStore } from "./folder-store.node.js";

interface Stored extends FolderEntry {
  readonly writtenMs: number;
}

export class FolderContents {
  readonly store: FolderStore;
  readonly keepMs: number;
  readonly now: () => number;
  /** What commits that lost the race have written. */
  readonly spare = new Map<FileContent, Stored>();

  constructor(store: FolderStore, keepMs: number, now: () => number) {
    this.store = store;
    this.keepMs = keepMs;
    this.now = now;
  }

  /** For one commit. */
  begin(): FolderBatch {
    return new FolderBatch(this);
  }

  async close(): Promise<void> {
    const left = [...this.spare.values()];
    this.spare.clear();
    for (const { blob } of left) await removeBlob(this.store, blob);
  }
}

/** The contents of one commit. It ends with `use`, `spare` or `drop`, or with none of them when all is in doubt. */
export class FolderBatch {
  readonly #shared: FolderContents;
  readonly #written = new Map<FileContent, Stored>();

  constructor(shared: FolderContents) {
    this.#shared = shared;
  }

  /** What the puts among the operations come to. Contents that the tree before has already are not written again. */
  async write(
    operations: readonly RepoOperation[],
    before: FolderTree,
    signal: AbortSignal | undefined,
  ): Promise<FolderTree> {
    const puts = new Map<string, FolderEntry>();
    const { store, spare, keepMs, now } = this.#shared;
    const present = new Map([...before.values()].map((entry) => [contentIdOf(entry), entry]));
    for (const operation of operations) {
      if (operation.kind !== "put") continue;
      const { path, content } = operation;
      const known = content.sha256 === undefined ? undefined : present.get(content.sha256);
      if (known?.sizeBytes === content.sizeBytes) {
        puts.set(path, known);
        continue;
      }
      const earlier = spare.get(content);
      spare.delete(content);
      const isFresh = earlier !== undefined && now() - earlier.writtenMs < keepMs / 4;
      if (earlier !== undefined && !isFresh) await removeBlob(store, earlier.blob);
      const stored =
        this.#written.get(content) ?? (isFresh ? earlier : await this.#writeOne(content, path, signal));
      this.#written.set(content, stored);
      const entry: FolderEntry = { blob: stored.blob, sizeBytes: stored.sizeBytes };
      present.set(contentIdOf(entry), entry);
      puts.set(path, entry);
    }
    const folders = new Set([...this.#written.values()].map(({ blob }) => blob.slice(0, 2)));
    for (const folder of folders) await store.sync("blobs", folder);
    if (folders.size > 0) await store.sync("blobs");
    return puts;
  }

  /** Throws `unavailable` when the contents are so old that they may be taken for leftovers soon. */
  checkAge(): void {
    const { now, keepMs, store } = this.#shared;
    for (const { writtenMs } of this.#written.values()) {
      if (now() - writtenMs < keepMs / 2) continue;
      const message = `${store.root}: writing the files of the commit took longer than ${keepMs / 2} ms; try again`;
      throw new TransportError("unavailable", message);
    }
  }

  /** A commit names them. */
  use(): void {
    this.#written.clear();
  }

  /** Kept for the next try with the same content. */
  spare(): void {
    for (const [content, stored] of this.#written) this.#shared.spare.set(content, stored);
    this.#written.clear();
  }

  /** Nothing names them. */
  async drop(): Promise<void> {
    for (const { blob } of this.#written.values()) await removeBlob(this.#shared.store, blob);
    this.#written.clear();
  }

  async #writeOne(content: FileContent, path: string, signal: AbortSignal | undefined): Promise<Stored> {
    const { store, now } = this.#shared;
    const writtenMs = now();
    const nonce = randomBytes(8).toString("hex");
    const hash = createHash("sha256");
    let sizeBytes = 0;
    await store.write(["tmp", `blob-${nonce}`], async (write) => {
      for await (const chunk of content.chunks()) {
        signal?.throwIfAborted();
        sizeBytes += chunk.byteLength;
        if (sizeBytes > content.sizeBytes) break;
        hash.update(chunk);
        await write(chunk);
      }
      signal?.throwIfAborted();
      if (sizeBytes === content.sizeBytes) return;
      throw new TransportError(
        "invalid",
        `${path}: the content has another size than the ${content.sizeBytes} bytes that it was said to have`,
        { path },
      );
    });
    const sha256 = hash.digest("hex");
    const blob = `${sha256}.${nonce}`;
    await store.move(["tmp", `blob-${nonce}`], ["blobs", blob.slice(0, 2), blob]);
    if (content.sha256 === undefined || content.sha256 === sha256) return { blob, sizeBytes, writtenMs };
    await removeBlob(store, blob);
    const message = `${path}: the content has the hash ${sha256} and was said to have ${content.sha256}`;
    throw new TransportError("invalid", message, { path });
  }
}

/** A content that stays is a leftover, which goes with time. */
async function removeBlob(store: FolderStore, blob: string): Promise<void> {
  await store.remove("blobs", blob.slice(0, 2), blob).catch(() => undefined);
}
