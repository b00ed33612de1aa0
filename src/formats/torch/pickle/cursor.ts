// A position in the bytes of a pickle: reads the argument forms that instructions have, and never past the end.

import { quote, TorchFileError, torchTruncated } from "../errors.js";
import { dataView } from "../source.js";

/** Longest name of a module, function or class. */
const MAX_NAME_BYTES = 1000;

const strictUtf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export class PickleCursor {
  position = 0;
  readonly #view: DataView;

  constructor(
    private readonly bytes: Uint8Array,
    /** Where the bytes stand in the file, for errors. */
    private readonly baseOffset: number,
    private readonly file: string | undefined,
  ) {
    this.#view = dataView(bytes);
  }

  /** Place of the next byte in the file. */
  get offset(): number {
    return this.baseOffset + this.position;
  }

  uint8(): number {
    return this.#view.getUint8(this.#advance(1));
  }

  uint16(): number {
    return this.#view.getUint16(this.#advance(2), true);
  }

  int32(): number {
    return this.#view.getInt32(this.#advance(4), true);
  }

  uint32(): number {
    return this.#view.getUint32(this.#advance(4), true);
  }

  float64(): number {
    return this.#view.getFloat64(this.#advance(8), false);
  }

  /** A length of 8 bytes. Beyond 2^53 - 1 no file can have that many bytes. */
  length64(): number {
    const offset = this.offset;
    const length = this.#view.getBigUint64(this.#advance(8), true);
    if (length <= BigInt(Number.MAX_SAFE_INTEGER)) return Number(length);
    throw new TorchFileError("limit", `a value claims ${length} bytes`, { file: this.file, offset });
  }

  /** A copy, so that a small value does not keep the whole pickle in memory. */
  take(length: number): Uint8Array {
    const start = this.#advance(length);
    return this.bytes.slice(start, start + length);
  }

  text(length: number): string {
    const offset = this.offset;
    const start = this.#advance(length);
    return this.#decode(this.bytes.subarray(start, start + length), offset);
  }

  /** Text up to a line break, which is consumed. */
  line(): string {
    const { offset, position } = this;
    const window = this.bytes.subarray(position, position + MAX_NAME_BYTES);
    const length = window.indexOf(0x0a);
    if (length < 0 && window.byteLength < MAX_NAME_BYTES) this.#advance(window.byteLength + 1);
    if (length < 0)
      throw new TorchFileError("limit", `a name is longer than ${MAX_NAME_BYTES} bytes`, {
        file: this.file,
        offset,
      });
    this.position += length + 1;
    return this.#decode(window.subarray(0, length), offset);
  }

  /** A signed integer of `length` bytes, little-endian two's complement. */
  integer(length: number): number | bigint {
    const start = this.#advance(length);
    let value = 0n;
    for (let i = start + length - 1; i >= start; i--) value = (value << 8n) | BigInt(this.bytes[i]!);
    const signed = BigInt.asIntN(8 * length, value);
    const number = Number(signed);
    return Number.isSafeInteger(number) ? number : signed;
  }

  #advance(length: number): number {
    const start = this.position;
    if (start + length > this.bytes.byteLength)
      throw torchTruncated(this.baseOffset + this.bytes.byteLength, this.offset + length, {
        file: this.file,
        offset: this.offset,
      });
    this.position = start + length;
    return start;
  }

  #decode(bytes: Uint8Array, offset: number): string {
    try {
      return strictUtf8.decode(bytes);
    } catch (cause) {
      const shown = quote(new TextDecoder("latin1").decode(bytes.subarray(0, 40)));
      const message = `text that starts with ${shown} is not valid UTF-8`;
      throw new TorchFileError("encoding", message, { file: this.file, offset, cause });
    }
  }
}
