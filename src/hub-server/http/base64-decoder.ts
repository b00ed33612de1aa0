// Base64 in pieces of any length to bytes, strictly: what is not base64 is an error, not skipped.

import { badRequest } from "../errors.js";

export class Base64Decoder {
  #carry = "";
  #isOver = false;

  /** ASCII bytes in, content bytes out. Throws HubError 400 for a character or padding out of place. */
  push(text: Uint8Array): Uint8Array {
    const all = this.#carry + Buffer.from(text.buffer, text.byteOffset, text.byteLength).toString("latin1");
    const length = all.length - (all.length % 4);
    this.#carry = all.slice(length);
    return length === 0 ? new Uint8Array(0) : this.#decode(all.slice(0, length));
  }

  finish(): Uint8Array {
    // Unpadded endings are accepted, as by most decoders.
    const rest = this.#carry;
    this.#carry = "";
    if (rest.length === 1) throw notBase64();
    return rest.length === 0 ? new Uint8Array(0) : this.#decode(rest.padEnd(4, "="));
  }

  #decode(text: string): Uint8Array {
    if (this.#isOver) throw notBase64();
    const padding = text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0;
    this.#isOver = padding > 0;
    const bytes = Buffer.from(text, "base64");
    // Node skips what is not base64, so a wrong character shows as a missing byte.
    if (bytes.byteLength !== (text.length / 4) * 3 - padding) throw notBase64();
    return bytes;
  }
}

function notBase64() {
  return badRequest("the content of a file is not base64");
}
