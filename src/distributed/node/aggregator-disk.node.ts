// The aggregator's surroundings in Node: a folder for large files, the machine's clock, SHA-256 of the system.

import { createHash } from "node:crypto";
import { createReadStream, type Stats } from "node:fs";
import { readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";

import { sweepStaleTemporaries, writeStreamAtomically } from "../../util/atomic-file.node.js";
import { makeFolders } from "../../util/folders.node.js";
import { loadOuterKernels } from "../wire/outer-kernels.node.js";
import type { Hasher, Scratch, ScratchFile, Surroundings } from "./aggregator-surroundings.js";
import type { Clock } from "./clock.js";
import { clockOf } from "./clock.node.js";
import { scratchSource } from "./scratch-source.node.js";

const READ_BYTES = 2 ** 20;

/** Waiting keeps the process alive: an aggregator mostly waits. */
const waitingClock = clockOf({ keepsAlive: true });

export function sha256Hasher(): Hasher {
  const hash = createHash("sha256");
  return {
    update: (bytes) => {
      hash.update(bytes);
    },
    digest: () => hash.digest("hex"),
  };
}

/** Everything below `folder`, which is made if needed. One process at a time: the caller holds a lock. */
export async function diskSurroundings(folder: string, clock: Clock = waitingClock): Promise<Surroundings> {
  makeFolders(folder);
  return {
    clock,
    dateMs: () => Date.now(),
    hasher: sha256Hasher,
    scratch: new DiskScratch(folder),
    kernels: await loadOuterKernels(),
  };
}

class DiskScratch implements Scratch {
  readonly #folder: string;
  /** Files of this process: their hash is known as long as nobody else wrote to them. */
  readonly #known = new Map<string, { readonly file: ScratchFile; readonly stamp: string }>();

  constructor(folder: string) {
    this.#folder = folder;
  }

  async write(name: string, produce: Parameters<Scratch["write"]>[1]): Promise<ScratchFile> {
    const path = this.#path(name);
    const hash = sha256Hasher();
    let sizeBytes = 0;
    // Not durable: whatever a power cut takes is downloaded or computed again.
    const options = { durable: false, createFolders: true };
    await writeStreamAtomically(
      path,
      (sink) =>
        produce({
          reserve: (size) => sink.reserve(size),
          write: async (chunk) => {
            hash.update(chunk);
            sizeBytes += chunk.byteLength;
            await sink.write(chunk);
          },
        }),
      options,
    );
    return this.#remember(this.#file(name, path, sizeBytes, hash.digest()), await stat(path));
  }

  async find(name: string): Promise<ScratchFile | undefined> {
    const path = this.#path(name);
    const info = await stat(path).catch(() => undefined);
    if (info === undefined || !info.isFile()) return undefined;
    const known = this.#known.get(name);
    if (known?.stamp === stampOf(info)) return known.file;
    const hash = sha256Hasher();
    for await (const chunk of createReadStream(path, { highWaterMark: READ_BYTES }))
      hash.update(chunk as Buffer);
    return this.#remember(this.#file(name, path, info.size, hash.digest()), info);
  }

  async remove(name: string): Promise<void> {
    this.#known.delete(name);
    await rm(this.#path(name), { force: true });
  }

  async list(prefix: string): Promise<readonly string[]> {
    const found: string[] = [];
    const walk = async (folder: string, parts: readonly string[]) => {
      await sweepStaleTemporaries(folder).catch(() => []);
      for (const entry of await readdir(folder, { withFileTypes: true }).catch(() => [])) {
        if (entry.isDirectory()) await walk(join(folder, entry.name), [...parts, entry.name]);
        else if (!entry.name.startsWith(".")) found.push([...parts, entry.name].join("/"));
      }
    };
    await walk(this.#folder, []);
    return found.filter((name) => name.startsWith(prefix)).sort();
  }

  #path(name: string): string {
    return join(this.#folder, ...name.split("/"));
  }

  #remember(file: ScratchFile, info: Stats): ScratchFile {
    this.#known.set(file.name, { file, stamp: stampOf(info) });
    return file;
  }

  #file(name: string, path: string, sizeBytes: number, sha256: string): ScratchFile {
    return {
      name,
      sizeBytes,
      sha256,
      open: () => scratchSource(path),
      content: () => ({
        sizeBytes,
        sha256,
        localPath: path,
        chunks: () => createReadStream(path, { highWaterMark: READ_BYTES }),
      }),
    };
  }
}

function stampOf({ size, mtimeMs, ino }: Stats): string {
  return `${size} ${mtimeMs} ${ino}`;
}
