// Cuts a row of bytes at each occurrence of a separator, whatever chunks the bytes come in.

/** What lies between two separators, or after the last one. */
export interface Segment {
  /** Valid until the next step. Without its end if it is longer than the limit. */
  readonly bytes: Uint8Array;
  readonly isTooLong: boolean;
}

/** Segments of up to `limitBytes`. No segment for the nothing after a separator at the very end. */
export async function* splitBytes(
  chunks: AsyncIterable<Uint8Array>,
  separator: Uint8Array,
  limitBytes: number,
): AsyncGenerator<Segment, void, undefined> {
  const held = new Growing(limitBytes);
  // The end of what is there can be the beginning of a separator.
  let undecided = new Uint8Array(0);
  for await (const chunk of chunks) {
    const data = undecided.length === 0 ? chunk : joined(undecided, chunk);
    let start = 0;
    for (let at = indexOf(data, separator, 0); at >= 0; at = indexOf(data, separator, start)) {
      yield held.endWith(data.subarray(start, at));
      start = at + separator.length;
    }
    const end = Math.max(start, data.length - separator.length + 1);
    held.add(data.subarray(start, end));
    undecided = data.slice(end);
  }
  held.add(undecided);
  if (!held.isEmpty) yield held.endWith(new Uint8Array(0));
}

/** The bytes of a segment that is not at its end yet. */
class Growing {
  readonly #limitBytes: number;
  #bytes = new Uint8Array(0);
  #length = 0;
  #isTooLong = false;

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes;
  }

  get isEmpty(): boolean {
    return this.#length === 0;
  }

  add(bytes: Uint8Array): void {
    const length = Math.min(bytes.length, this.#limitBytes - this.#length);
    this.#isTooLong ||= length < bytes.length;
    if (this.#length + length > this.#bytes.length) {
      const larger = new Uint8Array(Math.max(2 ** 16, 2 * (this.#length + length)));
      larger.set(this.#bytes.subarray(0, this.#length));
      this.#bytes = larger;
    }
    this.#bytes.set(bytes.subarray(0, length), this.#length);
    this.#length += length;
  }

  /** The segment, if these are its last bytes. */
  endWith(bytes: Uint8Array): Segment {
    // Most segments lie within one chunk and need no copy.
    if (this.#length === 0 && bytes.length <= this.#limitBytes) return { bytes, isTooLong: false };
    this.add(bytes);
    const segment = { bytes: this.#bytes.subarray(0, this.#length), isTooLong: this.#isTooLong };
    this.#length = 0;
    this.#isTooLong = false;
    return segment;
  }
}

function indexOf(data: Uint8Array, separator: Uint8Array, from: number): number {
  if (separator.length === 1) return data.indexOf(separator[0]!, from);
  return Buffer.from(data.buffer, data.byteOffset, data.byteLength).indexOf(separator, from);
}

function joined(head: Uint8Array, tail: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(head.length + tail.length);
  bytes.set(head);
  bytes.set(tail, head.length);
  return bytes;
}
