// What an aggregator needs of its surroundings: time, hashes, and room for files as large as the model. Node's disk is
// in aggregator-disk.node.ts.

import type { ByteSink, ByteSource } from "../../formats/safetensors/index.js";
import type { FileContent } from "../transports/contract.js";
import type { OuterKernels } from "../wire/outer-kernels.js";
import type { Clock } from "./clock.js";

export interface Hasher {
  update(bytes: Uint8Array): void;
  /** Lower-case hex. */
  digest(): string;
}

/** A complete file of the scratch room. */
export interface ScratchFile {
  readonly name: string;
  readonly sizeBytes: number;
  readonly sha256: string;
  /** Close it after use. */
  open(): Promise<ByteSource>;
  /** For a commit. */
  content(): FileContent;
}

/** Files by name: parts of letters, digits, ".", "_" and "-", with "/" between them. */
export interface Scratch {
  /** All of `produce` or nothing: a failure leaves what was there. */
  write(name: string, produce: (sink: ByteSink) => Promise<void>): Promise<ScratchFile>;
  /** A file of an earlier write, also of an earlier process. It is read to get its hash. */
  find(name: string): Promise<ScratchFile | undefined>;
  remove(name: string): Promise<void>;
  /** Names that start with `prefix`. */
  list(prefix: string): Promise<readonly string[]>;
}

export interface Surroundings {
  readonly clock: Clock;
  /** Milliseconds since 1970, for the records only. */
  dateMs(): number;
  /** SHA-256. */
  hasher(): Hasher;
  readonly scratch: Scratch;
  /** Who does the arithmetic; the bits are the same. Default: loops that run anywhere. */
  readonly kernels?: OuterKernels | undefined;
}

export function sha256Of(hasher: () => Hasher, content: string | Uint8Array): string {
  const hash = hasher();
  hash.update(typeof content === "string" ? new TextEncoder().encode(content) : content);
  return hash.digest();
}

/** Content of a commit that is at hand. */
export function smallContent(hasher: () => Hasher, text: string): FileContent {
  const bytes = new TextEncoder().encode(text);
  return {
    sizeBytes: bytes.byteLength,
    sha256: sha256Of(hasher, bytes),
    async *chunks() {
      yield bytes;
    },
  };
}

/** Bytes of one read: few requests where each read is one. */
const COPY_BYTES = 2 ** 23;

/** Copies a whole source: one piece is read while the one before is written. The caller closes the source. */
export async function copySource(source: ByteSource, sink: ByteSink, signal?: AbortSignal): Promise<void> {
  const buffers = [0, 1].map(() => new Uint8Array(Math.min(COPY_BYTES, source.sizeBytes)));
  const read = async (offset: number, room: Uint8Array): Promise<Uint8Array> => {
    const length = Math.min(room.byteLength, source.sizeBytes - offset);
    if (source.readInto === undefined) return source.read(offset, length);
    const target = room.subarray(0, length);
    if (length > 0) await source.readInto(offset, target);
    return target;
  };
  let reading = read(0, buffers[0]!);
  try {
    for (let offset = 0; offset < source.sizeBytes; ) {
      signal?.throwIfAborted();
      const bytes = await reading;
      offset += bytes.byteLength;
      buffers.reverse();
      reading = read(offset, buffers[0]!);
      // Heard of when its turn comes.
      reading.catch(() => undefined);
      await sink.write(bytes);
    }
  } finally {
    await reading.catch(() => undefined);
  }
}
