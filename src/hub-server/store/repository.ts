// One repository on the disk: branches that point to commits, commits, blobs. Every change of a branch happens in
// one critical section: compare, write what the commit needs, then move the branch by a rename. A crash at any
// point leaves the branch at a complete commit, the old one or the new one.

import { readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { sweepStaleTemporaries, writeFileAtomically } from "../../util/atomic-file.node.js";
import { syncFolder } from "../../util/platform.node.js";
import { badRequest, HubError, repoNotFound, systemCode } from "../errors.js";
import { formatRepoId, type RepoId } from "../repo-id.js";
import { applyChanges, type Change } from "./apply.js";
import { BlobFolder, type SealedFile } from "./blobs.js";
import { collectGarbage, type Reachable } from "./collect.js";
import { type Commit, type CommitRecord, decodeCommit, encodeCommit } from "./commit-record.js";
import { Mutex } from "./mutex.js";
import { checkBranchName, DEFAULT_BRANCH, isBranchName, parseRevision } from "./revision.js";

export interface RepoInfo {
  /** 24 hexadecimal digits, never used again, unlike the name. */
  readonly uid: string;
  readonly id: RepoId;
  readonly isPrivate: boolean;
  readonly createdAt: string;
}

export interface Branch {
  readonly name: string;
  readonly commitId: string;
}

export interface CommitRequest {
  readonly branch: string;
  /** The head that the branch must have: at least 5 digits of it. Absent: whatever it has. */
  readonly parent?: string;
  readonly title: string;
  readonly description: string;
  readonly author: string;
  readonly changes: readonly Change[];
  /** Sealed and synced contents that the changes speak of and that are not in the repository yet. */
  readonly contents: readonly SealedFile[];
}

/** Parsed commits are kept, since a poll reads the same one again and again. */
const KEPT_COMMITS = 16;

export interface RepositoryOptions {
  readonly now: () => Date;
  readonly maxFiles: number;
}

export class Repository {
  readonly info: RepoInfo;
  readonly blobs: BlobFolder;
  readonly #folder: string;
  readonly #options: RepositoryOptions;
  readonly #mutex = new Mutex();
  readonly #commits = new Map<string, Commit>();
  #isDeleted = false;

  constructor(folder: string, info: RepoInfo, options: RepositoryOptions) {
    this.#folder = folder;
    this.info = info;
    this.#options = options;
    this.blobs = new BlobFolder(join(folder, "blobs"));
  }

  get name(): string {
    return formatRepoId(this.info.id);
  }

  /** The commit that a revision means; HubError 404 `RevisionNotFound` if there is none. */
  async resolve(revision: string): Promise<Commit> {
    const parsed = parseRevision(revision);
    const id = parsed.kind === "commit" ? parsed.id : await this.#head(parsed.name);
    const commit = id === undefined ? undefined : await this.findCommit(id);
    if (commit === undefined) throw this.#revisionNotFound(revision);
    return commit;
  }

  async findCommit(id: string): Promise<Commit | undefined> {
    const kept = this.#commits.get(id);
    if (kept !== undefined) {
      this.#keep(kept);
      return kept;
    }
    const text = await readOrUndefined(this.#commitPath(id));
    if (text === undefined) return undefined;
    const commit = decodeCommit(id, text);
    this.#keep(commit);
    return commit;
  }

  /** Newest first, starting at `commit`, along the first parents. */
  async *history(commit: Commit): AsyncGenerator<Commit> {
    for (let next: Commit | undefined = commit; next !== undefined; ) {
      yield next;
      next = next.parent === null ? undefined : await this.findCommit(next.parent);
    }
  }

  async branches(): Promise<Branch[]> {
    const names = (await readdir(join(this.#folder, "refs"))).filter((name) => !name.startsWith("."));
    const found: Branch[] = [];
    for (const name of names.map(decodeURIComponent).sort()) {
      const commitId = await this.#head(name);
      if (commitId !== undefined) found.push({ name, commitId });
    }
    return found;
  }

  /** Adds a commit to a branch. A commit that changes nothing is added as well, so that the head moves. */
  async commit(request: CommitRequest): Promise<Commit> {
    return this.#exclusively(async () => {
      const [branch, head] = await this.#headOf(request.branch);
      if (request.parent !== undefined && !head.id.startsWith(request.parent)) {
        throw new HubError(
          412,
          "HeadMoved",
          `A commit has happened since: ${request.branch} is at ${head.id}, not at ${request.parent}. ` +
            "Read the new head and try again.",
          { body: { head: head.id } },
        );
      }
      const files = applyChanges(head, request.changes, this.#options.maxFiles);
      await this.blobs.publish(request.contents);
      await this.#requireBlobs(request.changes);
      const commit = await this.#writeCommit({
        parent: head.id,
        height: head.height + 1,
        title: request.title,
        description: request.description,
        author: request.author,
        date: this.#options.now().toISOString(),
        files,
      });
      await this.#moveBranch(branch, commit.id);
      return commit;
    });
  }

  /** Only for a new repository: the commit without files that every branch descends from. */
  async initialise(author: string): Promise<void> {
    const commit = await this.#writeCommit({
      parent: null,
      height: 0,
      title: "initial commit",
      description: "",
      author,
      date: this.info.createdAt,
      files: new Map(),
    });
    await this.#moveBranch(DEFAULT_BRANCH, commit.id);
  }

  async createBranch(name: string, startingPoint: string, overwrite: boolean): Promise<void> {
    await this.#exclusively(async () => {
      checkBranchName(name);
      const start = await this.resolve(startingPoint);
      if (!overwrite && (await this.#head(name)) !== undefined) {
        throw new HubError(409, "Conflict", `the branch ${name} exists already`);
      }
      await this.#moveBranch(name, start.id);
    });
  }

  async deleteBranch(name: string): Promise<void> {
    await this.#exclusively(async () => {
      if (name === DEFAULT_BRANCH) throw badRequest(`the branch ${DEFAULT_BRANCH} cannot be deleted`);
      if ((await this.#head(name)) === undefined) throw this.#revisionNotFound(name);
      await rm(this.#refPath(name));
      await syncFolder(join(this.#folder, "refs"));
    });
  }

  /**
   * Replaces a branch's history by one commit with the same files, and frees what only the old history needed. Old
   * commits are not found afterwards, and contents that were wanted within `graceMs` stay.
   */
  async squash(branch: string, title: string, author: string, graceMs: number): Promise<Commit> {
    return this.#exclusively(async () => {
      const [name, head] = await this.#headOf(branch);
      const files = new Map([...head.files].map(([path, { since: _, ...entry }]) => [path, entry]));
      const date = this.#options.now().toISOString();
      const commit = await this.#writeCommit({
        parent: null,
        height: 0,
        title,
        description: "",
        author,
        date,
        files,
      });
      await this.#moveBranch(name, commit.id);
      this.#commits.clear();
      await collectGarbage(this.#folder, await this.#reachable(), this.#options.now().getTime() - graceMs);
      return commit;
    });
  }

  /** After this every change is refused; `work` takes the folder away. */
  async retire(work: () => Promise<void>): Promise<void> {
    await this.#exclusively(async () => {
      await work();
      this.#isDeleted = true;
    });
  }

  /** Removes what a killed process left half written. */
  async sweep(): Promise<void> {
    for (const name of ["refs", "commits"]) await sweepStaleTemporaries(join(this.#folder, name));
  }

  #exclusively<T>(work: () => Promise<T>): Promise<T> {
    return this.#mutex.run(async () => {
      if (this.#isDeleted) throw repoNotFound(this.name);
      return work();
    });
  }

  async #reachable(): Promise<Reachable> {
    const commits = new Set<string>();
    const contents = new Set<string>();
    for (const { commitId } of await this.branches()) {
      for await (const { id, files } of this.history(await this.resolve(commitId))) {
        if (commits.has(id)) break;
        commits.add(id);
        for (const { sha256 } of files.values()) contents.add(sha256);
      }
    }
    return { commits, contents };
  }

  async #requireBlobs(changes: readonly Change[]): Promise<void> {
    for (const change of changes) {
      if (change.kind !== "put") continue;
      const { sha256, sizeBytes } = change.entry;
      const found = await this.blobs.sizeOf(sha256);
      if (found === sizeBytes) continue;
      throw badRequest(
        `${JSON.stringify(change.path)}: the repository has no content with sha256 ${sha256}` +
          (found === undefined ? "; upload it first" : ` of ${sizeBytes} bytes (it has ${found})`),
      );
    }
  }

  async #writeCommit(record: CommitRecord): Promise<Commit> {
    const { id, text } = encodeCommit(record);
    await writeFileAtomically(this.#commitPath(id), text);
    const commit = { ...record, id };
    this.#keep(commit);
    return commit;
  }

  async #moveBranch(name: string, commitId: string): Promise<void> {
    await writeFileAtomically(this.#refPath(name), `${commitId}\n`);
  }

  /** The branch that a revision means, and its commit. */
  async #headOf(revision: string): Promise<[branch: string, head: Commit]> {
    const parsed = parseRevision(revision);
    const id = parsed.kind === "branch" ? await this.#head(parsed.name) : undefined;
    const head = id === undefined ? undefined : await this.findCommit(id);
    if (parsed.kind !== "branch" || head === undefined) throw this.#revisionNotFound(revision);
    return [parsed.name, head];
  }

  async #head(branch: string): Promise<string | undefined> {
    if (!isBranchName(branch)) return undefined;
    return (await readOrUndefined(this.#refPath(branch)))?.trim();
  }

  #keep(commit: Commit): void {
    this.#commits.delete(commit.id);
    this.#commits.set(commit.id, commit);
    if (this.#commits.size > KEPT_COMMITS) this.#commits.delete(this.#commits.keys().next().value!);
  }

  #commitPath(id: string): string {
    return join(this.#folder, "commits", `${id}.json`);
  }

  #refPath(branch: string): string {
    return join(this.#folder, "refs", encodeURIComponent(branch));
  }

  #revisionNotFound(revision: string): HubError {
    return new HubError(404, "RevisionNotFound", `${this.name} has no revision ${JSON.stringify(revision)}`);
  }
}

async function readOrUndefined(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    if (systemCode(error) === "ENOENT") return undefined;
    throw error;
  }
}
