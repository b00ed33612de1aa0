// A file of a hub that is kept on this machine piece by piece: what was read once is not fetched again, by this run or a
// later one, and a reading that breaks off goes on with the first piece that is missing. Pieces of another content never
// meet, since their folder is named by the hub's hash.

import { createHash } from "node:crypto";
import { open, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import type { OpenFile } from "../../data/sources/source-file.js";
import { writeFileAtomically } from "../../util/atomic-file.node.js";
import { DataError } from "../../util/errors.js";

/** The bytes of a file, from wherever. */
export interface ByteFetcher {
  read(offset: number, length: number): Promise<Uint8Array>;
}

export interface CachedFileOptions {
  readonly name: string;
  readonly sizeBytes: number;
  /** SHA-256, or git's SHA-1 of a blob, in hexadecimal. */
  readonly contentId: string;
  /** Of this content alone. */
  readonly directory: string;
  /** Asked once, when the first piece is missing. */
  readonly fetcher: () => Promise<ByteFetcher>;
  readonly pieceBytes?: number | undefined;
}

const completeName = "complete";

export function openCached(options: CachedFileOptions): OpenFile {
  const { sizeBytes, directory, fetcher, pieceBytes = 2 ** 22 } = options;
  const pieces = Math.ceil(sizeBytes / pieceBytes);
  let remote: Promise<ByteFetcher> | undefined;
  let last: { readonly index: number; readonly bytes: Promise<Uint8Array> } | undefined;

  const sizeOf = (index: number) => Math.min(pieceBytes, sizeBytes - index * pieceBytes);
  const pathOf = (index: number) => join(directory, `${pieceBytes}-${String(index).padStart(6, "0")}`);

  const fetchPiece = async (index: number): Promise<Uint8Array> => {
    remote ??= fetcher();
    // A failure is not for ever: the next read asks again.
    remote.catch(() => {
      remote = undefined;
    });
    const bytes = await (await remote).read(index * pieceBytes, sizeOf(index));
    await writeFileAtomically(pathOf(index), bytes, { durable: false, createFolders: true });
    await checkWhole(options, pieces, pathOf);
    return bytes;
  };
  const piece = (index: number): Promise<Uint8Array> => {
    if (last?.index !== index) {
      const bytes = readWhole(pathOf(index), sizeOf(index)).then((found) => found ?? fetchPiece(index));
      bytes.catch(() => {
        last = undefined;
      });
      last = { index, bytes };
    }
    return last.bytes;
  };
  return {
    sizeBytes,
    async read(start, end) {
      const target = new Uint8Array(end - start);
      for (let at = start; at < end; ) {
        const index = Math.floor(at / pieceBytes);
        const first = index * pieceBytes;
        const stop = Math.min(end, first + pieceBytes);
        target.set((await piece(index)).subarray(at - first, stop - first), at - start);
        at = stop;
      }
      return target;
    },
    async close() {
      last = undefined;
    },
  };
}

/** Undefined if it is not there in full. */
async function readWhole(path: string, sizeBytes: number): Promise<Uint8Array | undefined> {
  const handle = await open(path, "r").catch(() => undefined);
  if (handle === undefined) return undefined;
  try {
    const bytes = await handle.readFile();
    return bytes.byteLength === sizeBytes ? bytes : undefined;
  } finally {
    await handle.close();
  }
}

/** Once all pieces are there, they are compared with the hash that the hub gave. */
async function checkWhole(
  { name, contentId, directory, sizeBytes }: CachedFileOptions,
  pieces: number,
  pathOf: (index: number) => string,
): Promise<void> {
  const isThere = (path: string) =>
    stat(path).then(
      () => true,
      () => false,
    );
  if (await isThere(join(directory, completeName))) return;
  // The last piece of a file that is read in order comes last.
  for (let index = pieces - 1; index >= 0; index--) if (!(await isThere(pathOf(index)))) return;
  const isSha256 = contentId.length === 64;
  const hash = createHash(isSha256 ? "sha256" : "sha1");
  if (!isSha256) hash.update(`blob ${sizeBytes}\0`);
  for (let index = 0; index < pieces; index++) {
    const handle = await open(pathOf(index), "r");
    try {
      hash.update(await handle.readFile());
    } finally {
      await handle.close();
    }
  }
  const found = hash.digest("hex");
  if (found === contentId) {
    await writeFileAtomically(join(directory, completeName), `${found}\n`, { durable: false });
    return;
  }
  await rm(directory, { recursive: true, force: true });
  throw new DataError(
    `${name} arrived damaged: its hash is ${found}, the hub says ${contentId}. It was removed from the cache; run again.`,
    { code: "data.damaged", details: { file: name } },
  );
}
