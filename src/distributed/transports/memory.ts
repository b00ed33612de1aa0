// A repository in memory, for tests and simulations: what a hub promises, without a wire. Everything follows from
// names, content and order, so that the same calls give the same revisions, and no call waits for anything but the
// content it is given.

import type { ByteSource } from "../../formats/safetensors/index.js";
import { compareCodePoints } from "../wire/order.js";
import type { CallOptions, CommitRequest, FileContent, RepoFile, Transport } from "./contract.js";
import { TransportError } from "./errors.js";
import { checkOperations, checkPath, checkPlace } from "./paths.js";
import { sha256Hex } from "./sha256.js";

/** Path to content id. */
type Tree = ReadonlyMap<string, string>;

export interface MemoryCommit {
  readonly revision: string;
  /** Undefined for the first one, which is empty. */
  readonly parent: string | undefined;
  readonly message: string;
  readonly tree: Tree;
}

export interface MemoryRepositoryOptions {
  /** Default `memory`. */
  readonly name?: string | undefined;
  /** What `create` says about it (default false). */
  readonly isPublic?: boolean | undefined;
}

/** What all connectors to one repository share. Commits and their files are kept for good. */
export class MemoryRepository {
  readonly name: string;
  readonly isPublic: boolean;
  readonly #commits: MemoryCommit[] = [];
  readonly #byRevision = new Map<string, MemoryCommit>();
  readonly #blobs = new Map<string, Uint8Array>();

  constructor({ name = "memory", isPublic = false }: MemoryRepositoryOptions = {}) {
    this.name = name;
    this.isPublic = isPublic;
  }

  /** Oldest first; empty until the repository was created. */
  get commits(): readonly MemoryCommit[] {
    return this.#commits;
  }

  /** Files of the newest commit, or of `revision`. */
  files(revision?: string): ReadonlyMap<string, Uint8Array> {
    const commit = revision === undefined ? this.#commits.at(-1) : this.#byRevision.get(revision);
    return new Map([...(commit?.tree ?? [])].map(([path, id]) => [path, this.blob(id)]));
  }

  commit(revision: string): MemoryCommit | undefined {
    return this.#byRevision.get(revision);
  }

  /** The bytes themselves: not to be changed. */
  blob(contentId: string): Uint8Array {
    const bytes = this.#blobs.get(contentId);
    if (bytes !== undefined) return bytes;
    throw new TransportError("not_found", `memory:${this.name} has no content ${contentId}`);
  }

  /** Keeps a copy and returns its content id. */
  keep(bytes: Uint8Array): string {
    const id = sha256Hex(bytes);
    if (!this.#blobs.has(id)) this.#blobs.set(id, bytes.slice());
    return id;
  }

  /** Makes `tree` the newest commit. */
  append(message: string, tree: Tree): string {
    const parent = this.#commits.at(-1)?.revision;
    const files = [...tree].sort(([a], [b]) => compareCodePoints(a, b));
    const facts = JSON.stringify([this.name, this.#commits.length, parent ?? null, message, files]);
    const revision = sha256Hex(facts).slice(0, 40);
    const commit = { revision, parent, message, tree };
    this.#commits.push(commit);
    this.#byRevision.set(revision, commit);
    return revision;
  }
}

const shared = new Map<string, MemoryRepository>();

/** The repository that everybody in this process means by `memory:NAME`; made when it is named first. */
export function sharedMemoryRepository(name: string): MemoryRepository {
  let repository = shared.get(name);
  if (repository === undefined) {
    repository = new MemoryRepository({ name });
    shared.set(name, repository);
  }
  return repository;
}

/** Frees what `memory:NAME` holds. Connectors that are open keep theirs; who names it next begins anew. */
export function forgetMemoryRepository(name: string): void {
  shared.delete(name);
}

/** One caller's connector to a repository that others use as well. */
export class MemoryTransport implements Transport {
  readonly title: string;
  readonly key: string;
  readonly repository: MemoryRepository;
  #isClosed = false;

  constructor(repository: MemoryRepository = new MemoryRepository()) {
    this.repository = repository;
    const { name } = repository;
    this.title = `memory:${name}`;
    const readable = name.replaceAll(/[^A-Za-z0-9._-]/g, "_").slice(0, 100);
    this.key = `memory-${readable}-${sha256Hex(name).slice(0, 8)}`;
  }

  async create(
    options: CallOptions = {},
  ): Promise<{ readonly created: boolean; readonly isPublic: boolean }> {
    this.#enter(options);
    const { isPublic, commits } = this.repository;
    const created = commits.length === 0;
    if (created) this.repository.append("initial commit", new Map());
    return { created, isPublic };
  }

  async head(options: CallOptions & { readonly known?: string | undefined } = {}): Promise<string> {
    this.#enter(options);
    return this.#head().revision;
  }

  async list(revision: string, prefix: string, options: CallOptions = {}): Promise<readonly RepoFile[]> {
    this.#enter(options);
    return [...this.#at(revision).tree]
      .filter(([path]) => path.startsWith(prefix))
      .map(([path, contentId]) => ({
        path,
        sizeBytes: this.repository.blob(contentId).byteLength,
        contentId,
      }))
      .sort((a, b) => compareCodePoints(a.path, b.path));
  }

  async read(
    revision: string,
    path: string,
    maxBytes: number,
    options: CallOptions = {},
  ): Promise<Uint8Array | undefined> {
    const bytes = this.#find(revision, path, options);
    if (bytes === undefined || bytes.byteLength <= maxBytes) return bytes?.slice();
    const message = `${path} of ${this.title} has ${bytes.byteLength} bytes, at most ${maxBytes} are read`;
    throw new TransportError("invalid", message, { path });
  }

  async open(revision: string, path: string, options: CallOptions = {}): Promise<ByteSource> {
    const bytes = this.#find(revision, path, options);
    if (bytes !== undefined) return new MemorySource(bytes, path);
    throw new TransportError("not_found", `${path}: ${this.title} has no such file at ${revision}`, { path });
  }

  async commit({ parent, message, operations }: CommitRequest, options: CallOptions = {}): Promise<string> {
    this.#enter(options);
    checkOperations(operations);
    this.#checkParent(parent);
    const puts = new Map<string, string>();
    for (const operation of operations) {
      if (operation.kind !== "put") continue;
      const bytes = await collect(operation.content, operation.path, options.signal);
      puts.set(operation.path, this.repository.keep(bytes));
    }
    // Nothing is awaited from here on: two commits never see the same head.
    this.#enter(options);
    const tree = new Map(this.#checkParent(parent).tree);
    for (const { kind, path } of operations) {
      if (kind === "delete") tree.delete(path);
    }
    for (const [path, contentId] of puts) tree.set(path, contentId);
    for (const path of tree.keys()) checkPlace(path, (other) => tree.has(other));
    return this.repository.append(message, tree);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
  }

  #enter({ signal }: CallOptions): void {
    signal?.throwIfAborted();
    if (this.#isClosed) throw new TransportError("unavailable", `${this.title}: the connector was closed`);
  }

  #head(): MemoryCommit {
    const commit = this.repository.commits.at(-1);
    if (commit !== undefined) return commit;
    throw new TransportError("not_found", `${this.title} does not exist: create it first`);
  }

  #at(revision: string): MemoryCommit {
    this.#head();
    const commit = this.repository.commit(revision);
    if (commit !== undefined) return commit;
    const shown = JSON.stringify(revision.slice(0, 80));
    throw new TransportError("not_found", `${this.title} has no revision ${shown}`);
  }

  #find(revision: string, path: string, options: CallOptions): Uint8Array | undefined {
    this.#enter(options);
    checkPath(path);
    const contentId = this.#at(revision).tree.get(path);
    return contentId === undefined ? undefined : this.repository.blob(contentId);
  }

  #checkParent(parent: string): MemoryCommit {
    const head = this.#head();
    if (head.revision === parent) return head;
    const shown = JSON.stringify(parent.slice(0, 80));
    throw new TransportError(
      "conflict",
      `${this.title}: the head is ${head.revision} and not ${shown}; read the new head`,
    );
  }
}

class MemorySource implements ByteSource {
  readonly name: string;
  readonly sizeBytes: number;
  readonly #bytes: Uint8Array;

  constructor(bytes: Uint8Array, name: string) {
    this.name = name;
    this.sizeBytes = bytes.byteLength;
    this.#bytes = bytes;
  }

  async read(offset: number, length: number): Promise<Uint8Array> {
    if (offset >= 0 && length >= 0 && offset + length <= this.sizeBytes)
      return this.#bytes.slice(offset, offset + length);
    throw new TransportError(
      "invalid",
      `${this.name}: ${length} bytes from ${offset} are not within its ${this.sizeBytes}`,
      { path: this.name },
    );
  }
}

async function collect(
  content: FileContent,
  path: string,
  signal: AbortSignal | undefined,
): Promise<Uint8Array> {
  const bytes = new Uint8Array(content.sizeBytes);
  let at = 0;
  for await (const chunk of content.chunks()) {
    signal?.throwIfAborted();
    if (at + chunk.byteLength <= bytes.byteLength) bytes.set(chunk, at);
    at += chunk.byteLength;
    if (at > bytes.byteLength) break;
  }
  if (at === bytes.byteLength) return bytes;
  throw new TransportError(
    "invalid",
    `${path}: the content has another size than the ${content.sizeBytes} bytes that it was said to have`,
    { path },
  );
}
