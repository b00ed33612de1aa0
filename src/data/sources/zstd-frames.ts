// Cuts a zstd stream into its frames (RFC 8878, section 3.1) without decoding them: for a decoder that wants a whole
// frame and the size of its content at once. Frames that hold no content are left out.

import { DataError } from "../../util/errors.js";

export interface ZstdFrame {
  readonly bytes: Uint8Array;
  /** At least the size of the content: exact if the frame says it, else what its blocks can hold. */
  readonly contentBytes: number;
}

const magic = 0xfd2fb528;
const largestBlock = 2 ** 17;

/** Throws DataError for what is not zstd, and for a frame of more than `limitBytes` of content or of file. */
export async function* zstdFrames(
  chunks: AsyncIterable<Uint8Array>,
  name: string,
  limitBytes: number,
): AsyncGenerator<ZstdFrame, void, undefined> {
  const input = new ByteQueue(chunks, name);
  for (;;) {
    const head = await input.peek(4);
    if (head.length === 0) return;
    if (head.length < 4) throw damaged(name, "it ends in the middle of a frame");
    const mark = view(head).getUint32(0, true);
    if ((mark & 0xfffffff0) >>> 0 === 0x184d2a50) {
      const size = view(await input.peekAll(8)).getUint32(4, true);
      await input.skip(8 + size);
      continue;
    }
    if (mark !== magic) throw damaged(name, "what should be a frame does not begin like one");
    yield await readFrame(input, name, limitBytes);
  }
}

async function readFrame(input: ByteQueue, name: string, limitBytes: number): Promise<ZstdFrame> {
  const { 4: descriptor = 0 } = await input.peekAll(5);
  const isSingleSegment = (descriptor & 0x20) !== 0;
  const idBytes = [0, 1, 2, 4][descriptor & 3]!;
  const sizeFlag = descriptor >> 6;
  const sizeBytes = sizeFlag === 0 ? (isSingleSegment ? 1 : 0) : 2 ** sizeFlag;
  const headerBytes = 5 + (isSingleSegment ? 0 : 1) + idBytes + sizeBytes;
  const header = await input.peekAll(headerBytes);
  const stated = sizeBytes === 0 ? undefined : contentSize(header, headerBytes - sizeBytes, sizeBytes);
  if (stated !== undefined && stated > limitBytes) throw tooLarge(name, limitBytes);

  let length = headerBytes;
  let atMost = 0;
  for (let isLast = false; !isLast; ) {
    const bytes = await input.peekAll(length + 3);
    const block = bytes[length]! | (bytes[length + 1]! << 8) | (bytes[length + 2]! << 16);
    const [kind, size] = [(block >> 1) & 3, block >> 3];
    if (kind === 3) throw damaged(name, "a block is of no known kind");
    isLast = (block & 1) === 1;
    length += 3 + (kind === 1 ? 1 : size);
    atMost += kind === 2 ? largestBlock : size;
    if (length > limitBytes || atMost - largestBlock > limitBytes) throw tooLarge(name, limitBytes);
  }
  if ((descriptor & 4) !== 0) length += 4;
  return { bytes: await input.take(length), contentBytes: stated ?? atMost };
}

function contentSize(header: Uint8Array, at: number, sizeBytes: number): number {
  const data = view(header);
  if (sizeBytes === 1) return data.getUint8(at);
  if (sizeBytes === 2) return data.getUint16(at, true) + 256;
  return sizeBytes === 4 ? data.getUint32(at, true) : Number(data.getBigUint64(at, true));
}

/** Chunks as one row of bytes that can be looked at before they are taken. */
class ByteQueue {
  readonly #chunks: AsyncIterator<Uint8Array>;
  readonly #name: string;
  #bytes = new Uint8Array(2 ** 17);
  #start = 0;
  #end = 0;

  constructor(chunks: AsyncIterable<Uint8Array>, name: string) {
    this.#chunks = chunks[Symbol.asyncIterator]();
    this.#name = name;
  }

  /** The next `length` bytes, or fewer at the end. Valid until the next call. */
  async peek(length: number): Promise<Uint8Array> {
    while (this.#end - this.#start < length) {
      const { done, value } = await this.#chunks.next();
      if (done === true) break;
      this.#append(value);
    }
    return this.#bytes.subarray(this.#start, Math.min(this.#start + length, this.#end));
  }

  async peekAll(length: number): Promise<Uint8Array> {
    const bytes = await this.peek(length);
    if (bytes.length < length) throw damaged(this.#name, "it ends in the middle of a frame");
    return bytes;
  }

  async take(length: number): Promise<Uint8Array> {
    const bytes = (await this.peekAll(length)).slice();
    this.#start += length;
    return bytes;
  }

  async skip(length: number): Promise<void> {
    for (let left = length; left > 0; ) {
      const step = Math.min(left, 2 ** 16);
      await this.peekAll(step);
      this.#start += step;
      left -= step;
    }
  }

  #append(chunk: Uint8Array): void {
    const kept = this.#end - this.#start;
    if (this.#end + chunk.length > this.#bytes.length) {
      const size = Math.max(this.#bytes.length, 2 ** Math.ceil(Math.log2(kept + chunk.length)));
      const target = size === this.#bytes.length ? this.#bytes : new Uint8Array(size);
      target.set(this.#bytes.subarray(this.#start, this.#end));
      this.#bytes = target;
      this.#start = 0;
      this.#end = kept;
    }
    this.#bytes.set(chunk, this.#end);
    this.#end += chunk.length;
  }
}

function view(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function damaged(name: string, what: string): DataError {
  return new DataError(`${name} cannot be decompressed: ${what}. Get the file again.`, {
    code: "data.damaged",
    details: { file: name },
  });
}

function tooLarge(name: string, limitBytes: number): DataError {
  return new DataError(
    `${name} is one zstd frame of more than ${limitBytes} bytes, which this version of Node can only decode at once. ` +
      "Use Node 22.15 or newer, or compress it in frames (pzstd does) or with gzip.",
    { code: "data.frame_too_large", details: { file: name, limitBytes } },
  );
}
