// A repository in memory for tests of the node, with failures on demand. Commits in one line; old revisions stay.

import { createHash } from "node:crypto";

import type { CommitRequest, RepoFile, Transport } from "../../../src/distributed/transports/contract.js";
import { TransportError } from "../../../src/distributed/transports/errors.js";
import { bytesSource } from "../../../src/formats/safetensors/index.js";

export type Call = "head" | "list" | "read" | "open" | "commit";

const sha256 = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex");

export class MemoryRepo implements Transport {
  readonly title = "memory repository";
  readonly key = "memory";
  readonly revisions: ReadonlyMap<string, Uint8Array>[] = [new Map()];
  /** What was called, in order. */
  readonly calls: string[] = [];
  /** Asked before every call; what it returns is thrown (for commits: "after" throws once the commit is made). */
  fault: (call: Call) => TransportError | { readonly after: TransportError } | undefined = () => undefined;

  get files(): ReadonlyMap<string, Uint8Array> {
    return this.revisions.at(-1)!;
  }

  put(files: Readonly<Record<string, Uint8Array | string>>, deleted: readonly string[] = []): void {
    const next = new Map(this.files);
    for (const path of deleted) next.delete(path);
    for (const [path, value] of Object.entries(files))
      next.set(path, typeof value === "string" ? new TextEncoder().encode(value) : value);
    this.revisions.push(next);
  }

  async create() {
    return { created: false, isPublic: false };
  }

  async head(): Promise<string> {
    this.#enter("head");
    return String(this.revisions.length - 1);
  }

  async list(revision: string, prefix: string): Promise<RepoFile[]> {
    this.#enter("list");
    return [...this.#at(revision)]
      .filter(([path]) => path.startsWith(prefix))
      .map(([path, bytes]) => ({ path, sizeBytes: bytes.byteLength, contentId: sha256(bytes) }));
  }

  async read(revision: string, path: string): Promise<Uint8Array | undefined> {
    this.#enter("read");
    return this.#at(revision).get(path);
  }

  async open(revision: string, path: string) {
    this.#enter("open");
    const bytes = this.#at(revision).get(path);
    if (bytes === undefined) throw new TransportError("not_found", `${path}: no such file`);
    return bytesSource(bytes, path);
  }

  async commit({ parent, operations }: CommitRequest): Promise<string> {
    const fault = this.#enter("commit");
    const puts: Record<string, Uint8Array> = {};
    for (const operation of operations) {
      if (operation.kind !== "put") continue;
      const chunks: Uint8Array[] = [];
      for await (const chunk of operation.content.chunks()) chunks.push(chunk);
      puts[operation.path] = new Uint8Array(Buffer.concat(chunks));
    }
    if (parent !== String(this.revisions.length - 1)) throw new TransportError("conflict", "the head moved");
    this.put(puts);
    if (fault !== undefined) throw fault.after;
    return this.head();
  }

  async close(): Promise<void> {}

  #enter(call: Call): { readonly after: TransportError } | undefined {
    this.calls.push(call);
    const fault = this.fault(call);
    if (fault instanceof TransportError) throw fault;
    return fault;
  }

  #at(revision: string): ReadonlyMap<string, Uint8Array> {
    const files = this.revisions[Number(revision)];
    if (files === undefined) throw new TransportError("not_found", `no revision ${revision}`);
    return files;
  }
}
