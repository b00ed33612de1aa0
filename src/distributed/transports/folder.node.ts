// A repository in a folder that processes share, on one machine or over NFS: `file:PATH`. Contents and commit records
// are written once and never changed; whoever makes the record of the next number first has made the commit. There is
// no lock, so a process that dies leaves at most files that nobody names, which are cleared away later. Node only.

import { createHash, randomBytes } from "node:crypto";
import { resolve } from "node:path";
import type { ByteSource } from "../../formats/safetensors/index.js";
import { compareCodePoints } from "../wire/order.js";
import type { CallOptions, CommitRequest, RepoFile, Transport } from "./contract.js";
import { TransportError } from "./errors.js";
import { type Collected, collectFolder, type FolderRetention } from "./folder-collect.node.js";
import { FolderContents } from "./folder-contents.node.js";
import { FolderHistory } from "./folder-history.node.js";
import {
  applyRecord,
  contentIdOf,
  encodeRecord,
  type FolderEntry,
  type FolderTree,
  hasTree,
  numberOfRevision,
  parseRecord,
  recordName,
  revisionOf,
  TREE_EVERY,
} from "./folder-record.js";
import { FolderSource } from "./folder-source.node.js";
import { FolderStore } from "./folder-store.node.js";
import { checkOperations, checkPath, checkPlace } from "./paths.js";
import { sha256Hex } from "./sha256.js";

export interface FolderTransportOptions {
  /** Relative to the working directory. */
  readonly root: string;
  /** Default: 128 commits, two hours. */
  readonly retention?: Partial<FolderRetention> | undefined;
  /** Milliseconds of a clock that goes on while the machine sleeps; only differences count. */
  readonly now?: (() => number) | undefined;
}

const DEFAULT_RETENTION: FolderRetention = { keepCommits: 128, keepMs: 2 * 3_600_000 };
const LEAST_KEPT_COMMITS = 16;

export class FolderTransport implements Transport {
  readonly title: string;
  readonly key: string;
  readonly #store: FolderStore;
  readonly #history: FolderHistory;
  readonly #retention: FolderRetention;
  readonly #contents: FolderContents;
  readonly #sources = new Set<FolderSource>();
  #isClosed = false;

  constructor({ root, retention, now = Date.now }: FolderTransportOptions) {
    const path = resolve(root);
    const { keepCommits, keepMs } = { ...DEFAULT_RETENTION, ...retention };
    this.#store = new FolderStore(path);
    this.#history = new FolderHistory(this.#store);
    this.#retention = { keepCommits: Math.max(LEAST_KEPT_COMMITS, keepCommits), keepMs };
    this.#contents = new FolderContents(this.#store, keepMs, now);
    this.title = `file:${path}`;
    const readable = path.replaceAll(/[^A-Za-z0-9._-]+/g, "_").slice(-100);
    this.key = `folder-${readable}-${sha256Hex(path).slice(0, 8)}`;
  }

  /** Never says public: who may read a folder is the affair of the file system and of its owner. */
  async create(
    options: CallOptions = {},
  ): Promise<{ readonly created: boolean; readonly isPublic: boolean }> {
    this.#enter(options);
    await this.#store.make();
    if (!(await this.#store.check())) throw this.#missing();
    const isMade = (await this.#history.head()) === undefined && (await this.#makeFirst());
    return { created: isMade, isPublic: false };
  }

  async head({
    known,
    ...options
  }: CallOptions & { readonly known?: string | undefined } = {}): Promise<string> {
    await this.#open(options);
    const revision = await this.#history.head(known);
    if (revision === undefined) throw this.#missing();
    return revision;
  }

  async list(revision: string, prefix: string, options: CallOptions = {}): Promise<readonly RepoFile[]> {
    await this.#open(options);
    return [...(await this.#history.tree(revision))]
      .filter(([path]) => path.startsWith(prefix))
      .map(([path, entry]) => ({ path, sizeBytes: entry.sizeBytes, contentId: contentIdOf(entry) }))
      .sort((a, b) => compareCodePoints(a.path, b.path));
  }

  async read(
    revision: string,
    path: string,
    maxBytes: number,
    options: CallOptions = {},
  ): Promise<Uint8Array | undefined> {
    const entry = await this.#find(revision, path, options);
    if (entry === undefined) return undefined;
    if (entry.sizeBytes > maxBytes) {
      const message = `${path} of ${this.title} has ${entry.sizeBytes} bytes, at most ${maxBytes} are read`;
      throw new TransportError("invalid", message, { path });
    }
    const source = await FolderSource.open(this.#store, entry, path, options.signal);
    try {
      const bytes = await source.read(0, entry.sizeBytes);
      if (createHash("sha256").update(bytes).digest("hex") === contentIdOf(entry)) return bytes;
    } finally {
      await source.close();
    }
    throw new TransportError(
      "corrupt",
      `${path} of ${this.title} is damaged: its bytes have another hash than when it was written; ` +
        "restore the folder from a copy",
      { path },
    );
  }

  async open(revision: string, path: string, options: CallOptions = {}): Promise<ByteSource> {
    const entry = await this.#find(revision, path, options);
    if (entry === undefined)
      throw new TransportError("not_found", `${path}: ${this.title} has no such file at ${revision}`, {
        path,
      });
    const source = await FolderSource.open(this.#store, entry, path, options.signal, () =>
      this.#sources.delete(source),
    );
    this.#sources.add(source);
    return source;
  }

  async commit(request: CommitRequest, options: CallOptions = {}): Promise<string> {
    options.signal?.throwIfAborted();
    checkOperations(request.operations);
    await this.#open(options);
    const { parent } = request;
    const number = await this.#numberAfter(parent);
    const before = await this.#history.tree(parent);
    const batch = this.#contents.begin();
    let isDecided = false;
    try {
      const puts = await batch.write(request.operations, before, options.signal);
      const deletes = request.operations.filter(({ kind }) => kind === "delete").map(({ path }) => path);
      const tree = applyRecord(before, { puts, deletes });
      for (const path of tree.keys()) checkPlace(path, (other) => tree.has(other));
      const nonce = randomBytes(16).toString("hex");
      const { message } = request;
      const record = {
        number,
        parent,
        nonce,
        message,
        puts,
        deletes,
        tree: hasTree(number) ? tree : undefined,
      };
      const bytes = encodeRecord(record);
      const revision = revisionOf(number, bytes);
      const isOurs = await this.#store.publish(
        bytes,
        `commit-${nonce}`,
        `commits/${recordName(number)}`,
        () => {
          this.#enter(options);
          batch.checkAge();
        },
      );
      if (!isOurs || !(await this.#isInLine(number, parent, revision))) throw await this.#conflict(parent);
      isDecided = true;
      batch.use();
      await this.#settle(number);
      return revision;
    } catch (error) {
      const problem = error instanceof TransportError ? error.problem : undefined;
      if (problem === "conflict") batch.spare();
      // After a doubt the contents may be in use.
      else if (!isDecided && problem !== "ambiguous") await batch.drop();
      throw error;
    }
  }

  /** Clears away what is old; commits do it now and then by themselves. */
  async collect(): Promise<Collected> {
    await this.#open({});
    return collectFolder(this.#store, this.#history, this.#retention);
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await this.#contents.close();
    for (const source of [...this.#sources]) await source.close();
  }

  #enter({ signal }: CallOptions): void {
    signal?.throwIfAborted();
    if (this.#isClosed) throw new TransportError("unavailable", `${this.title}: the connector was closed`);
  }

  async #open(options: CallOptions): Promise<void> {
    this.#enter(options);
    if (!(await this.#store.check())) throw this.#missing();
  }

  #missing(): TransportError {
    return new TransportError(
      "not_found",
      `${this.title} holds no repository: create it first, or check the path`,
    );
  }

  async #makeFirst(): Promise<boolean> {
    const nonce = randomBytes(16).toString("hex");
    const none: FolderTree = new Map();
    const message = "initial commit";
    const bytes = encodeRecord({
      number: 1,
      parent: undefined,
      nonce,
      message,
      puts: none,
      deletes: [],
      tree: none,
    });
    const isOurs = await this.#store.publish(bytes, `commit-${nonce}`, `commits/${recordName(1)}`);
    await this.#store.sync("commits");
    return isOurs;
  }

  async #find(revision: string, path: string, options: CallOptions): Promise<FolderEntry | undefined> {
    this.#enter(options);
    checkPath(path);
    await this.#open(options);
    return (await this.#history.tree(revision)).get(path);
  }

  /** The number of a commit on `parent`. Throws `conflict` if that is not the head. */
  async #numberAfter(parent: string): Promise<number> {
    const number = numberOfRevision(parent);
    if (number === undefined || (await this.#history.head(parent)) !== parent)
      throw await this.#conflict(parent);
    return number + 1;
  }

  async #conflict(parent: string): Promise<TransportError> {
    const head = await this.#history.head();
    const shown = JSON.stringify(parent.slice(0, 80));
    return new TransportError(
      "conflict",
      `${this.title}: the head is ${head} and not ${shown}; read the new head`,
    );
  }

  /**
   * Whether a record that was just made follows on `parent`. After a very long halt of this process the number may
   * have been free only because that part of the history was cleared away.
   */
  async #isInLine(number: number, parent: string, revision: string): Promise<boolean> {
    if ((await this.#history.revisionAt(number - 1)) === parent) return true;
    const next = await this.#store.read("commits", recordName(number + 1));
    if (next !== undefined && parseRecord(next, number + 1, recordName(number + 1)).parent === revision)
      return true;
    if ((await this.#history.revisionAt(number)) !== revision)
      throw new TransportError(
        "ambiguous",
        `${this.title}: this process stood still for so long that its commit cannot be found any more; look for its files`,
      );
    await this.#store.remove("commits", recordName(number));
    return false;
  }

  /** The commit is made; nothing that goes wrong from here on changes that. */
  async #settle(number: number): Promise<void> {
    try {
      await this.#store.sync("commits");
    } catch (error) {
      const message = `${this.title}: the commit is made, but it may not be on the disk yet; read the head and look`;
      throw new TransportError("ambiguous", message, { cause: error });
    }
    if (number % TREE_EVERY !== 0) return;
    // Whoever comes to the next whole tree tries again.
    await collectFolder(this.#store, this.#history, this.#retention).catch(() => undefined);
  }
}
