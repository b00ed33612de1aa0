// What a node keeps on its own machine: the deltas that no version is known to contain, weights that were fetched, the
// baselines of checkpoints, and one small document about all of them. An interface; on disk it is outbox.node.ts.

import type { ByteSink, ByteSource } from "../../formats/safetensors/index.js";
import { bytesSource } from "../../formats/safetensors/index.js";
import type { PendingDelta, RestoredWorker } from "../protocol/worker-contract.js";
import type { FileContent } from "../transports/contract.js";
import { NodeError } from "./errors.js";
import type { ProgressBook } from "./progress-book.js";

/** SHA-256 of bytes that come in pieces. */
export interface Hasher {
  update(bytes: Uint8Array): unknown;
  /** Lower-case hex. Call it once, at the end. */
  digest(): string;
}

/** Makes a SHA-256. Injected, since portable code has none that takes pieces. */
export type NewHasher = () => Hasher;

export interface StoredFile {
  readonly sizeBytes: number;
  readonly sha256: string;
}

/** Files of one kind. A file is there as a whole or not at all, also after a power cut. */
export interface FileRoom {
  /** Writes what `produce` puts into the sink, replacing a file of that name. Nothing changes when it fails. */
  write(name: string, produce: (sink: ByteSink) => Promise<unknown>): Promise<StoredFile>;
  /** @throws NodeError `node.damaged_file` if there is no such file. */
  open(name: string): Promise<ByteSource>;
  /** For a commit. @throws NodeError `node.damaged_file` if there is no such file. */
  content(name: string): Promise<FileContent>;
  /** Sorted. */
  list(): Promise<readonly string[]>;
  /** A missing file is no error. */
  remove(name: string): Promise<void>;
}

/** What survives a restart. */
export interface NodeRecord {
  /** Tells this node's deltas from those of others by their numbers, too. Never changes. */
  readonly salt: string;
  /** Highest sequence of a delta that was complete on disk; 0 before the first. */
  readonly lastTaken: number;
  readonly progress: ProgressBook;
  /** None of its deltas is being taken. */
  readonly worker: RestoredWorker;
}

export interface Outbox {
  readonly outgoing: FileRoom;
  readonly global: FileRoom;
  readonly baselines: FileRoom;
  /** Undefined before the first save. */
  load(): Promise<NodeRecord | undefined>;
  save(record: NodeRecord): Promise<void>;
}

/** Name of a delta's file in `outgoing`. */
export function outgoingName({ sequence }: Pick<PendingDelta, "sequence">): string {
  return `delta_${sequence}.safetensors`;
}

/** An outbox that lasts as long as the object: for tests and simulated nodes, which "restart" with the same one. */
export function memoryOutbox(newHasher: NewHasher): Outbox {
  let saved: NodeRecord | undefined;
  return {
    outgoing: memoryRoom(newHasher),
    global: memoryRoom(newHasher),
    baselines: memoryRoom(newHasher),
    load: async () => saved,
    save: async (record) => {
      saved = structuredClone(record);
    },
  };
}

function memoryRoom(newHasher: NewHasher): FileRoom {
  const files = new Map<string, Uint8Array>();
  const get = (name: string): Uint8Array => {
    const bytes = files.get(name);
    if (bytes === undefined) throw missingFile(name);
    return bytes;
  };
  return {
    write: async (name, produce) => {
      const chunks: Uint8Array[] = [];
      await produce({
        write: async (chunk) => {
          chunks.push(chunk.slice());
        },
      });
      const bytes = joined(chunks);
      files.set(name, bytes);
      const hasher = newHasher();
      hasher.update(bytes);
      return { sizeBytes: bytes.byteLength, sha256: hasher.digest() };
    },
    open: async (name) => bytesSource(get(name), name),
    content: async (name) => {
      const bytes = get(name);
      return {
        sizeBytes: bytes.byteLength,
        chunks: async function* () {
          yield bytes;
        },
      };
    },
    list: async () => [...files.keys()].sort(),
    remove: async (name) => {
      files.delete(name);
    },
  };
}

/** The error for a file that ought to be there. */
export function missingFile(name: string, cause?: unknown): NodeError {
  return new NodeError("damaged_file", `${name}: the node's own file is missing; was its folder cleared?`, {
    details: { file: name },
    cause,
  });
}

function joined(chunks: readonly Uint8Array[]): Uint8Array {
  const out = new Uint8Array(chunks.reduce((sum, { byteLength }) => sum + byteLength, 0));
  let offset = 0;
  for (const chunk of chunks) {
    out.set(chunk, offset);
    offset += chunk.byteLength;
  }
  return out;
}
