// The files under a folder repository, below all meaning: opened without following links, written durably, made under
// a name that must be free. Failures of the file system come as TransportError. Node only.
//
//   repository.json    what this folder is
//   commits/N.json     commit records; whoever makes number N first has made commit N
//   blobs/xx/…         contents, each written once under a name of its own
//   tmp/               records that are not commits yet

import { constants } from "node:fs";
import { type FileHandle, link, lstat, open, readdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { makeFolders } from "../../util/folders.node.js";
import { syncFolder } from "../../util/platform.node.js";
import { TransportError, type TransportProblem } from "./errors.js";

export const FOLDERS = ["blobs", "commits", "tmp"] as const;
export const MARKER = "repository.json";
const FORMAT = 1;
const MAX_RECORD_BYTES = 1 << 27;
/** Links are not followed, and a pipe that somebody put there does not make us wait. */
const READ_FLAGS = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);

export interface FolderFileInfo {
  readonly name: string;
  readonly mtimeMs: number;
}

export class FolderStore {
  readonly root: string;
  #isChecked = false;

  constructor(root: string) {
    this.root = root;
  }

  path(...parts: readonly string[]): string {
    return join(this.root, ...parts);
  }

  /** Whether the repository is there. Throws `invalid` for a folder that is something else. */
  async check(): Promise<boolean> {
    if (this.#isChecked) return true;
    return this.guard("looking at it", async () => {
      const info = await lstatIf(this.path(MARKER));
      if (info === undefined) return false;
      await this.#checkMarker();
      for (const name of FOLDERS) {
        const folder = await lstatIf(this.path(name));
        if (folder?.isDirectory() === true) continue;
        const problem = folder === undefined ? "is missing" : "is not a folder of its own";
        throw new TransportError(
          folder === undefined ? "corrupt" : "invalid",
          `${this.root} is damaged: ${name} ${problem}; restore the folder from a copy or name a new one`,
        );
      }
      this.#isChecked = true;
      return true;
    });
  }

  /** Makes the folders and the marker; what is there already stays. */
  async make(): Promise<void> {
    await this.guard("making it", async () => {
      try {
        makeFolders(this.root);
      } catch (error) {
        if (codeOf(error) !== "EEXIST") throw error;
        throw new TransportError("invalid", `${this.root} is a file: name a folder`, { cause: error });
      }
      const known = new Set<string>([...FOLDERS, MARKER]);
      const foreign = (await readdir(this.root)).filter((name) => !known.has(name) && !name.startsWith("."));
      if (!(await lstatIf(this.path(MARKER))) && foreign.length > 0) {
        const shown = JSON.stringify(foreign[0]);
        throw new TransportError(
          "invalid",
          `${this.root} holds other files (${shown}): name an empty folder or one that is not there yet`,
        );
      }
      for (const name of FOLDERS) makeFolders(this.path(name));
      const text = `${JSON.stringify({ format: "speedtronic folder repository", version: FORMAT })}\n`;
      await this.publish(new TextEncoder().encode(text), `marker-${crypto.randomUUID()}`, MARKER);
      await syncFolder(this.root);
    });
  }

  /** A small file, or undefined if there is none. */
  async read(...parts: readonly string[]): Promise<Uint8Array | undefined> {
    return this.guard(`reading ${parts.join("/")}`, async () => {
      const handle = await openIf(this.path(...parts));
      if (handle === undefined) return undefined;
      try {
        const { size } = await handle.stat();
        if (size > MAX_RECORD_BYTES)
          throw new TransportError("corrupt", `${this.path(...parts)} has ${size} bytes: it is no record`);
        return new Uint8Array(await handle.readFile());
      } finally {
        await handle.close();
      }
    });
  }

  async exists(...parts: readonly string[]): Promise<boolean> {
    return this.guard(
      `looking at ${parts.join("/")}`,
      async () => (await lstatIf(this.path(...parts))) !== undefined,
    );
  }

  /** Names in a folder, in no order. */
  async names(...parts: readonly string[]): Promise<readonly string[]> {
    return this.guard(`listing ${parts.join("/")}`, () => readdir(this.path(...parts)));
  }

  /** Plain files in a folder with their times, which are those of the file system. */
  async infos(...parts: readonly string[]): Promise<readonly FolderFileInfo[]> {
    return this.guard(`listing ${parts.join("/")}`, async () => {
      const found: FolderFileInfo[] = [];
      for (const name of await readdir(this.path(...parts))) {
        const info = await lstatIf(this.path(...parts, name));
        if (info?.isFile() === true) found.push({ name, mtimeMs: info.mtimeMs });
      }
      return found;
    });
  }

  /** For reading; undefined if there is none. Links are refused. */
  async open(...parts: readonly string[]): Promise<FileHandle | undefined> {
    return this.guard(`opening ${parts.join("/")}`, () => openIf(this.path(...parts)));
  }

  /**
   * Writes a new file durably; its folder is made if need be, and synced by the caller. Errors of `produce` that are
   * not about writing pass through.
   */
  async write(
    parts: readonly string[],
    produce: (write: (chunk: Uint8Array) => Promise<void>) => Promise<void>,
  ): Promise<void> {
    const path = this.path(...parts);
    const doing = `writing ${parts.join("/")}`;
    const handle = await this.guard(doing, async () => {
      makeFolders(this.path(...parts.slice(0, -1)));
      return open(path, "wx", 0o666);
    });
    let isWhole = false;
    try {
      await produce((chunk) => this.guard(doing, () => writeAll(handle, chunk)));
      await this.guard(doing, () => handle.sync());
      isWhole = true;
    } finally {
      await handle.close().catch(() => undefined);
      if (!isWhole) await rm(path, { force: true }).catch(() => undefined);
    }
  }

  /** To a name that nobody else uses, in a folder that is made if need be. Not durable before a sync. */
  async move(from: readonly string[], to: readonly string[]): Promise<void> {
    await this.guard(`writing ${to.join("/")}`, async () => {
      makeFolders(this.path(...to.slice(0, -1)));
      await rename(this.path(...from), this.path(...to)).catch(async (error: unknown) => {
        if (codeOf(error) !== "ENOENT") throw error;
        // A network file system may have done it and ask again after its answer was lost.
        if ((await lstatIf(this.path(...to))) !== undefined) return;
        if ((await lstatIf(this.path(...from.slice(0, -1)))) === undefined) throw error;
        throw tookTooLong(this.root, error);
      });
    });
  }

  async sync(...parts: readonly string[]): Promise<void> {
    await this.guard(`syncing ${parts.join("/")}`, () => syncFolder(this.path(...parts)));
  }

  async remove(...parts: readonly string[]): Promise<void> {
    await this.guard(`removing ${parts.join("/")}`, () => rm(this.path(...parts), { force: true }));
  }

  /**
   * Makes the file `target` with these bytes, whole and durable, unless it is there. Returns whether it is ours: a
   * network file system may answer "exists" to a link that it made itself a moment ago, so the bytes decide.
   */
  async publish(
    bytes: Uint8Array,
    temporary: string,
    target: string,
    beforeLink: () => void = () => undefined,
  ): Promise<boolean> {
    await this.write(["tmp", temporary], (write) => write(bytes));
    try {
      beforeLink();
      await link(this.path("tmp", temporary), this.path(target));
      return true;
    } catch (error) {
      const code = codeOf(error);
      if (code === "EEXIST") {
        const found = await this.read(target);
        return found !== undefined && Buffer.compare(found, bytes) === 0;
      }
      if (code === "ENOENT") throw tookTooLong(this.root, error);
      if (code === "ENOTSUP" || code === "ENOSYS" || code === "EMLINK" || code === "EPERM")
        throw new TransportError(
          "invalid",
          `${this.root}: its file system makes no hard links (${code}), which commits need; name a folder on another`,
          { cause: error },
        );
      if (code !== undefined && LOST.has(code))
        throw new TransportError(
          "ambiguous",
          `${this.root}: the file system did not say whether the commit was made (${code}); read the head and look`,
          { cause: error },
        );
      throw this.toError(error, "committing");
    } finally {
      await rm(this.path("tmp", temporary), { force: true }).catch(() => undefined);
    }
  }

  /** The file system's own time, which ages are measured by: the clocks of its users may differ. */
  async now(): Promise<number> {
    const name = `time-${crypto.randomUUID()}`;
    return this.guard("asking for the time", async () => {
      const handle = await open(this.path("tmp", name), "wx");
      try {
        return (await handle.stat()).mtimeMs;
      } finally {
        await handle.close();
        await rm(this.path("tmp", name), { force: true });
      }
    });
  }

  async guard<T>(doing: string, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw this.toError(error, doing);
    }
  }

  /** Other errors than those of the file system stay what they are. */
  toError(error: unknown, doing: string): unknown {
    const code = codeOf(error);
    if (code === undefined || error instanceof TransportError) return error;
    const [problem, advice] =
      PROBLEMS[code] ?? (["unavailable", "see whether the disk or the server is well"] as const);
    return new TransportError(problem, `${this.root}: ${doing} failed (${code}); ${advice}`, {
      cause: error,
    });
  }

  async #checkMarker(): Promise<void> {
    const bytes = await this.read(MARKER);
    let raw: unknown;
    try {
      raw = JSON.parse(new TextDecoder().decode(bytes));
    } catch {
      // Said below.
    }
    const { format, version } = (raw ?? {}) as Record<string, unknown>;
    if (format === "speedtronic folder repository" && version === FORMAT) return;
    const isNewer = typeof version === "number" && version > FORMAT;
    throw new TransportError(
      isNewer ? "invalid" : "corrupt",
      isNewer
        ? `${this.root} was made by a newer speedtronic (version ${version} of its form): update this one`
        : `${this.path(MARKER)} is damaged or of another program: restore the folder from a copy or name a new one`,
    );
  }
}

const LOST: ReadonlySet<string> = new Set(["EIO", "ETIMEDOUT", "ESTALE", "EINTR", "ECONNRESET", "EHOSTDOWN"]);

const PROBLEMS: Readonly<Record<string, readonly [TransportProblem, string]>> = {
  EACCES: ["denied", "give this user the right to read and write it"],
  EPERM: ["denied", "give this user the right to read and write it"],
  EROFS: ["denied", "the file system is read-only: mount it for writing or name another folder"],
  ENOENT: ["not_found", "it was moved or deleted: restore it or name another folder"],
  ENOTDIR: ["invalid", "a part of the path is a file: name a folder"],
  ELOOP: ["invalid", "it contains a link, which is not followed: put the file itself there"],
  ENOSPC: ["unavailable", "no space is left: free some"],
  EDQUOT: ["unavailable", "the quota is used up: free some space"],
  EMFILE: ["unavailable", "too many files are open"],
  ENFILE: ["unavailable", "too many files are open"],
};

/** What waited in tmp/ is gone. */
function tookTooLong(root: string, cause: unknown): TransportError {
  return new TransportError(
    "unavailable",
    `${root}: the commit took so long that its files were taken for leftovers; try again`,
    { cause },
  );
}

function codeOf(error: unknown): string | undefined {
  if (!(error instanceof Error) || !("syscall" in error)) return undefined;
  const { code } = error as NodeJS.ErrnoException;
  return typeof code === "string" ? code : undefined;
}

async function lstatIf(path: string) {
  return lstat(path).catch((error: unknown) => {
    if (codeOf(error) === "ENOENT") return undefined;
    throw error;
  });
}

async function openIf(path: string): Promise<FileHandle | undefined> {
  const handle = await open(path, READ_FLAGS).catch((error: unknown) => {
    if (codeOf(error) === "ENOENT") return undefined;
    throw error;
  });
  if (handle === undefined || (await handle.stat()).isFile()) return handle;
  await handle.close();
  throw new TransportError("corrupt", `${path} is not a file: restore the folder from a copy`);
}

async function writeAll(handle: FileHandle, chunk: Uint8Array): Promise<void> {
  for (let at = 0; at < chunk.byteLength; ) {
    const { bytesWritten } = await handle.write(chunk, at, Math.min(chunk.byteLength - at, 1 << 30));
    at += bytesWritten;
  }
}
