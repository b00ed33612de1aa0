// A node's files on disk: every write is atomic and durable before it counts, so that `kill -9` at any moment leaves a
// state that the next start can go on from. One process at a time; the lock is state-folder.node.ts. Node only.

import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { readdir, readFile, rm, stat } from "node:fs/promises";
import { join } from "node:path";

import { fileSource } from "../../formats/safetensors/index.node.js";
import {
  sweepStaleTemporaries,
  writeFileAtomically,
  writeStreamAtomically,
} from "../../util/atomic-file.node.js";
import { makeFolders } from "../../util/folders.node.js";
import { NodeError } from "./errors.js";
import { decodeRecord, encodeRecord } from "./node-record.js";
import { type FileRoom, missingFile, type NewHasher, type Outbox } from "./outbox.js";

const RECORD = "state.json";
/** A file that is not read in one go is read in pieces of this size. */
const PIECE_BYTES = 2 ** 20;

/** SHA-256 of this platform. */
export const newSha256: NewHasher = () => {
  const hash = createHash("sha256");
  return { update: (bytes) => hash.update(bytes), digest: () => hash.digest("hex") };
};

/** Opens (and makes) the folder of one node and one repository; what a killed process left half done is removed. */
export async function diskOutbox(folder: string): Promise<Outbox> {
  const rooms = {
    outgoing: join(folder, "outgoing"),
    global: join(folder, "global"),
    baselines: join(folder, "baselines"),
  };
  try {
    for (const room of [folder, ...Object.values(rooms)]) {
      makeFolders(room);
      await sweepStaleTemporaries(room);
    }
  } catch (cause) {
    throw unusable(folder, cause);
  }
  const record = join(folder, RECORD);
  return {
    outgoing: diskRoom(rooms.outgoing),
    global: diskRoom(rooms.global),
    baselines: diskRoom(rooms.baselines),
    load: async () => {
      const text = await readFile(record, "utf8").catch((cause: NodeJS.ErrnoException) => {
        if (cause.code === "ENOENT") return undefined;
        throw unusable(record, cause);
      });
      return text === undefined ? undefined : decodeRecord(text, record);
    },
    save: (value) => writeFileAtomically(record, encodeRecord(value)),
  };
}

function diskRoom(folder: string): FileRoom {
  return {
    write: async (name, produce) => {
      const hasher = newSha256();
      let sizeBytes = 0;
      await writeStreamAtomically(join(folder, name), async (sink) => {
        await produce({
          reserve: (size) => sink.reserve(size),
          write: async (chunk) => {
            hasher.update(chunk);
            sizeBytes += chunk.byteLength;
            await sink.write(chunk);
          },
        });
      });
      return { sizeBytes, sha256: hasher.digest() };
    },
    open: async (name) => {
      try {
        return await fileSource(join(folder, name));
      } catch (cause) {
        throw missingFile(join(folder, name), cause);
      }
    },
    content: async (name) => {
      const localPath = join(folder, name);
      const { size } = await stat(localPath).catch((cause: unknown) => {
        throw missingFile(localPath, cause);
      });
      const chunks = () => createReadStream(localPath, { highWaterMark: PIECE_BYTES });
      return { sizeBytes: size, chunks, localPath };
    },
    list: async () => (await readdir(folder)).filter((name) => !name.startsWith(".")).sort(),
    remove: (name) => rm(join(folder, name), { force: true }),
  };
}

function unusable(path: string, cause: unknown): NodeError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new NodeError(
    "state_folder",
    `${path}: the node's state cannot be kept there (${reason}); check permissions, or choose another distributed.state_dir`,
    { details: { path }, cause },
  );
}
