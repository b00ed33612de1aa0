// The files that `verify` needs, as one revision has them: fetched once, hashed on the way, gone when nobody needs them
// any more.

import type { RepoFile, Transport } from "../transports/contract.js";
import { TransportError } from "../transports/errors.js";
import type { ScratchFile, Surroundings } from "./aggregator-surroundings.js";
import { sha256Of } from "./aggregator-surroundings.js";

const READ_BYTES = 2 ** 20;

export interface Fetched {
  readonly file: ScratchFile;
  readonly sha256: string;
  readonly contentId: string;
}

export interface VerifyFilesOptions {
  readonly transport: Transport;
  readonly surroundings: Surroundings;
  readonly revision: string;
  readonly onBytes: (bytes: number, path: string) => void;
  readonly signal?: AbortSignal | undefined;
}

export class VerifyFiles {
  readonly #options: VerifyFilesOptions;
  readonly #listed: ReadonlyMap<string, RepoFile>;
  readonly #fetched = new Map<string, Fetched>();

  private constructor(options: VerifyFilesOptions, listed: readonly RepoFile[]) {
    this.#options = options;
    this.#listed = new Map(listed.map((file) => [file.path, file]));
  }

  static async list(options: VerifyFilesOptions): Promise<VerifyFiles> {
    const { transport, revision, signal } = options;
    const listed = [
      ...(await transport.list(revision, "global/", { signal })),
      ...(await transport.list(revision, "nodes/", { signal })),
    ];
    return new VerifyFiles(options, listed);
  }

  /** What the listing says; undefined for a file that is not there. */
  entry(path: string): RepoFile | undefined {
    return this.#listed.get(path);
  }

  /**
   * Undefined where it is not there.
   * @throws TransportError; `corrupt` when the repository itself finds that the content is not what it was.
   */
  async fetch(path: string): Promise<Fetched | undefined> {
    const known = this.#fetched.get(path);
    const entry = this.#listed.get(path);
    if (known !== undefined || entry === undefined) return known;
    const { transport, surroundings, revision, onBytes, signal } = this.#options;
    const source = await transport.open(revision, path, { signal });
    try {
      // No text of a peer becomes a part of a path.
      const name = `verify/${sha256Of(surroundings.hasher, path).slice(0, 40)}`;
      const file = await surroundings.scratch.write(name, async (sink) => {
        for (let offset = 0; offset < source.sizeBytes; offset += READ_BYTES) {
          signal?.throwIfAborted();
          const bytes = await source.read(offset, Math.min(READ_BYTES, source.sizeBytes - offset));
          await sink.write(bytes);
          onBytes(bytes.byteLength, path);
        }
      });
      const fetched = { file, sha256: file.sha256, contentId: entry.contentId };
      this.#fetched.set(path, fetched);
      return fetched;
    } finally {
      await source.close?.();
    }
  }

  /** Frees the room of all files but these. */
  async keepOnly(paths: Iterable<string>): Promise<void> {
    const kept = new Set(paths);
    for (const [path, { file }] of this.#fetched) {
      if (kept.has(path)) continue;
      this.#fetched.delete(path);
      await this.#options.surroundings.scratch.remove(file.name);
    }
  }
}

/** Whether an error says that a file's content is not what it was, which is a finding and no trouble of the network. */
export function isDamage(error: unknown): error is TransportError {
  return error instanceof TransportError && error.problem === "corrupt";
}
