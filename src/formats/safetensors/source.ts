// Where a reader gets its bytes: anything that knows its size and can read a range. Bytes in memory, a Blob,
// an address that answers range requests; files of Node are in file.node.ts.

import { SafetensorsError, truncatedError } from "./errors.js";

/** Random access to bytes that do not change while they are read. */
export interface ByteSource {
  /** Shown in errors: a file name or an address. */
  readonly name?: string;
  readonly sizeBytes: number;
  /** Exactly `length` bytes from `offset`. The result may share memory with the source. */
  read(offset: number, length: number): Promise<Uint8Array>;
  /** Like `read`, into memory of the caller; sources that can do this without a copy have it. */
  readInto?(offset: number, target: Uint8Array): Promise<void>;
  close?(): Promise<void>;
}

/** Bytes in memory. Tensors read from it are views of `bytes`. */
export function bytesSource(bytes: Uint8Array, name?: string): ByteSource {
  const plain = plainBytes(bytes);
  return {
    ...(name === undefined ? {} : { name }),
    sizeBytes: plain.byteLength,
    read: async (offset, length) => plain.subarray(offset, offset + length),
  };
}

/** The same memory as a Uint8Array proper: a Buffer of Node has other ideas of `slice`. */
export function plainBytes(bytes: Uint8Array): Uint8Array {
  return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** A Blob or File of a browser (or of Node). */
export function blobSource(blob: Blob, name?: string): ByteSource {
  return {
    ...(name === undefined ? {} : { name }),
    sizeBytes: blob.size,
    read: async (offset, length) => new Uint8Array(await blob.slice(offset, offset + length).arrayBuffer()),
  };
}

export interface UrlSourceOptions {
  /** Replaces the global `fetch`. */
  fetch?: typeof fetch;
  headers?: Readonly<Record<string, string>>;
  signal?: AbortSignal;
}

/**
 * A file on a web server, read by range requests, so that a header can be inspected without a download.
 * @throws SafetensorsError `source` when the server does not answer ranges, or the file changes meanwhile.
 */
export async function urlSource(url: string, options: UrlSourceOptions = {}): Promise<ByteSource> {
  const doFetch = options.fetch ?? fetch;
  // Passwords and the signatures of signed addresses stay out of errors.
  const name = url.replace(/[?#].*$/s, "").replace(/\/\/[^/@]*@/, "//");
  const request = async (offset: number, length: number) => {
    const response = await doFetch(url, {
      headers: { ...options.headers, range: `bytes=${offset}-${offset + length - 1}` },
      ...(options.signal === undefined ? {} : { signal: options.signal }),
    });
    const total = /\/([0-9]+)$/.exec(response.headers.get("content-range") ?? "")?.[1];
    if (response.status === 206 && total !== undefined) {
      return { bytes: new Uint8Array(await response.arrayBuffer()), total: Number(total) };
    }
    // An unread body would keep the connection, and a 200 carries the whole file.
    await response.body?.cancel();
    // An empty file has no satisfiable range.
    if (response.status === 416 && total === "0") return { bytes: new Uint8Array(0), total: 0 };
    throw new SafetensorsError("source", refusalMessage(response.status), { file: name });
  };
  // The answer to the first request tells the size; its bytes usually cover a small header.
  const head = await request(0, FIRST_READ_BYTES);
  return {
    name,
    sizeBytes: head.total,
    read: async (offset, length) => {
      if (length === 0) return new Uint8Array(0);
      if (offset + length <= head.bytes.byteLength) return head.bytes.subarray(offset, offset + length);
      const { bytes, total } = await request(offset, length);
      if (total !== head.total) {
        const message = `the file changed while it was read: ${head.total} bytes before, ${total} now`;
        throw new SafetensorsError("source", message, { file: name });
      }
      return bytes;
    },
  };
}

function refusalMessage(status: number): string {
  const answer = `the server answered ${status} to a range request, 206 is needed`;
  if (status === 200) return `${answer}: it sends whole files only, so download the file first`;
  if (status === 404) return `${answer}: there is no such file; check the address`;
  if (status === 401 || status === 403) return `${answer}: it asks for permission`;
  return answer;
}

/** What is read at once to get a small header in one request. */
export const FIRST_READ_BYTES = 2 ** 16;

/** Reads a range and checks that the source kept its promise about the length. */
export async function readExactly(source: ByteSource, offset: number, length: number): Promise<Uint8Array> {
  const bytes = await source.read(offset, length);
  if (bytes.byteLength === length) return bytes;
  const fields = { file: source.name, offset };
  if (bytes.byteLength < length) throw truncatedError(offset + bytes.byteLength, offset + length, fields);
  throw new SafetensorsError("source", `asked for ${length} bytes, got ${bytes.byteLength}`, fields);
}
