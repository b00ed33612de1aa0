// The disk of a simulated machine: what stays when a process dies. A write takes a moment and then is there as a whole;
// a process that dies before leaves what was there.

import { type ByteSink, bytesSource } from "../../formats/safetensors/index.js";
import type { Scratch, ScratchFile } from "../node/aggregator-surroundings.js";
import { decodeRecord, encodeRecord } from "../node/node-record.js";
import { type FileRoom, missingFile, type NewHasher, type NodeRecord, type Outbox } from "../node/outbox.js";
import { MemorySink } from "./memory-sink.js";
import type { SimulatedProcess } from "./process.js";
import type { RandomStream } from "./random.js";

type Files = Map<string, Uint8Array>;

export interface DiskOptions {
  readonly newHasher: NewHasher;
  readonly random: RandomStream;
  /** The record is on disk. */
  readonly onSaved?: (record: NodeRecord) => void;
}

const RECORD = "state.json";

export class SimulatedDisk {
  readonly #options: DiskOptions;
  readonly rooms = {
    outgoing: new Map() as Files,
    global: new Map() as Files,
    baselines: new Map() as Files,
  };
  readonly scratch: Files = new Map();
  #record: string | undefined;
  readonly #writes = new Set<{ readonly process: SimulatedProcess }>();

  constructor(options: DiskOptions) {
    this.#options = options;
  }

  /** Nothing that a living process writes is on its way. */
  get isQuiet(): boolean {
    return [...this.#writes].every(({ process }) => process.isDead);
  }

  /** The files of a training node, as `process` sees them. */
  outbox(process: SimulatedProcess): Outbox {
    return {
      outgoing: this.#room(process, this.rooms.outgoing),
      global: this.#room(process, this.rooms.global),
      baselines: this.#room(process, this.rooms.baselines),
      load: async () => (this.#record === undefined ? undefined : decodeRecord(this.#record, RECORD)),
      save: async (record) => {
        const text = encodeRecord(record);
        await this.#writing(process);
        this.#record = text;
        this.#options.onSaved?.(decodeRecord(text, RECORD));
      },
    };
  }

  /** The aggregator's room. */
  scratchOf(process: SimulatedProcess): Scratch {
    const files = this.scratch;
    const file = (name: string, bytes: Uint8Array, sha256: string): ScratchFile => ({
      name,
      sizeBytes: bytes.byteLength,
      sha256,
      open: async () => bytesSource(bytes, name),
      content: () => ({ sizeBytes: bytes.byteLength, sha256, chunks: () => oneChunk(bytes) }),
    });
    return {
      write: async (name, produce) => {
        const bytes = await collect(produce);
        await this.#writing(process);
        files.set(name, bytes);
        return file(name, bytes, this.#sha256(bytes));
      },
      find: async (name) => {
        const bytes = files.get(name);
        return bytes && file(name, bytes, this.#sha256(bytes));
      },
      remove: async (name) => {
        files.delete(name);
      },
      list: async (prefix) => [...files.keys()].filter((name) => name.startsWith(prefix)).sort(),
    };
  }

  #room(process: SimulatedProcess, files: Files): FileRoom {
    const get = (name: string): Uint8Array => {
      const bytes = files.get(name);
      if (bytes === undefined) throw missingFile(name);
      return bytes;
    };
    return {
      write: async (name, produce) => {
        const bytes = await collect(produce);
        await this.#writing(process);
        files.set(name, bytes);
        return { sizeBytes: bytes.byteLength, sha256: this.#sha256(bytes) };
      },
      open: async (name) => bytesSource(get(name), name),
      content: async (name) => {
        const bytes = get(name);
        return { sizeBytes: bytes.byteLength, chunks: () => oneChunk(bytes) };
      },
      list: async () => [...files.keys()].sort(),
      remove: async (name) => {
        files.delete(name);
      },
    };
  }

  /** Until the bytes are safe. Now and then a disk takes its time. */
  async #writing(process: SimulatedProcess): Promise<void> {
    const { random } = this.#options;
    const write = { process };
    this.#writes.add(write);
    await process.sleep(random.chance(0.1) ? random.between(100, 4000) : random.between(1, 20));
    this.#writes.delete(write);
  }

  #sha256(bytes: Uint8Array): string {
    const hasher = this.#options.newHasher();
    hasher.update(bytes);
    return hasher.digest();
  }
}

async function collect(produce: (sink: ByteSink) => Promise<unknown>): Promise<Uint8Array> {
  const sink = new MemorySink();
  await produce(sink);
  return sink.bytes;
}

async function* oneChunk(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}
