// What a folder repository looked like at a revision: records read backwards to the nearest whole tree, each checked
// against the hash that the one after it names. Node only.

import { TransportError } from "./errors.js";
import {
  applyRecord,
  type FolderRecord,
  type FolderTree,
  numberOfName,
  numberOfRevision,
  parseRecord,
  recordName,
  revisionOf,
} from "./folder-record.js";
import type { FolderStore } from "./folder-store.node.js";

const KEPT_TREES = 4;

export class FolderHistory {
  readonly #store: FolderStore;
  /** By revision, least recently used first. */
  readonly #trees = new Map<string, FolderTree>();

  constructor(store: FolderStore) {
    this.#store = store;
  }

  /**
   * The newest revision. With the head of before, two looks at names and one small file are enough.
   * Undefined if there is no commit.
   */
  async head(known?: string): Promise<string | undefined> {
    const number = known === undefined ? undefined : numberOfRevision(known);
    // Old records go in order of their numbers: while this one is there, a missing next one was not made yet.
    if (number !== undefined && !(await this.#store.exists("commits", recordName(number + 1)))) {
      const revision = await this.revisionAt(number);
      if (revision !== undefined) return revision;
    }
    // A record may go between the listing and the reading only if there are newer ones.
    for (let tries = 0; tries < 5; tries++) {
      const newest = (await this.numbers()).at(-1);
      if (newest === undefined) return undefined;
      const revision = await this.revisionAt(newest);
      if (revision !== undefined) return revision;
    }
    throw new TransportError(
      "unavailable",
      `${this.#store.root}: the newest commit could not be read; try again`,
    );
  }

  /** Of all records that are there, in order. */
  async numbers(): Promise<readonly number[]> {
    const names = await this.#store.names("commits");
    return names.flatMap((name) => numberOfName(name) ?? []).sort((a, b) => a - b);
  }

  /** The revision of record `number`, or undefined if it is not there. */
  async revisionAt(number: number): Promise<string | undefined> {
    const bytes = await this.#store.read("commits", recordName(number));
    return bytes === undefined ? undefined : revisionOf(number, bytes);
  }

  /** Throws `not_found` for a revision that is not or no longer there, `corrupt` for a damaged one. */
  async tree(revision: string): Promise<FolderTree> {
    const cached = this.#trees.get(revision);
    if (cached !== undefined) return this.#remember(revision, cached);
    const later: FolderRecord[] = [];
    for (let at = revision; ; ) {
      const base = this.#trees.get(at);
      const record = base === undefined ? await this.record(at) : undefined;
      const tree = base ?? record?.tree;
      if (tree !== undefined) return this.#remember(revision, later.reduceRight(applyRecord, tree));
      if (record?.parent === undefined)
        throw new TransportError(
          "corrupt",
          `${this.#store.root}: the commit ${at} has neither a tree nor a parent`,
        );
      later.push(record);
      at = record.parent;
    }
  }

  async record(revision: string): Promise<FolderRecord> {
    const number = numberOfRevision(revision);
    const bytes = number === undefined ? undefined : await this.#store.read("commits", recordName(number));
    if (number === undefined || bytes === undefined) {
      const shown = JSON.stringify(revision.slice(0, 80));
      throw new TransportError(
        "not_found",
        `${this.#store.root} has no revision ${shown}, or no longer: read the head again`,
      );
    }
    const what = this.#store.path("commits", recordName(number));
    if (revisionOf(number, bytes) === revision) return parseRecord(bytes, number, what);
    // Another repository may have taken this one's place; then nobody names this revision but an old reader.
    parseRecord(bytes, number, `${what} is damaged (restore the folder from a copy): it`);
    throw new TransportError(
      "not_found",
      `${this.#store.root} has another commit than ${revision} in its place: read the head again`,
    );
  }

  #remember(revision: string, tree: FolderTree): FolderTree {
    this.#trees.delete(revision);
    this.#trees.set(revision, tree);
    for (const oldest of this.#trees.keys()) {
      if (this.#trees.size <= KEPT_TREES) break;
      this.#trees.delete(oldest);
    }
    return tree;
  }
}
