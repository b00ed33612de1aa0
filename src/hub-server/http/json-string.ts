// The inside of a JSON string in pieces: takes UTF-8 bytes after the opening quote, gives the text's bytes, and says
// where the closing quote is. For strings that are too long to be held in memory.

import { badRequest } from "../errors.js";

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const simple: Readonly<Record<string, string>> = {
  '"': '"',
  "\\": "\\",
  "/": "/",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
};

export class JsonStringReader {
  /** An escape that is not complete yet, from its backslash on. */
  #escape = "";
  /** First half of a surrogate pair, waiting for the second. */
  #high: number | undefined;

  /**
   * Reads from `at` on. `put` gets the text in order (views of `chunk`). Returns the index after the closing quote,
   * or undefined if the string goes on in the next piece.
   */
  read(chunk: Uint8Array, at: number, put: (text: Uint8Array) => void): number | undefined {
    let position = at;
    while (position < chunk.byteLength) {
      if (this.#escape !== "") {
        this.#escape += String.fromCharCode(chunk[position]!);
        position += 1;
        this.#tryEscape(put);
        continue;
      }
      const quote = chunk.indexOf(QUOTE, position);
      const end = quote < 0 ? chunk.byteLength : quote;
      const run = chunk.subarray(position, end);
      const backslash = run.indexOf(BACKSLASH);
      const text = backslash < 0 ? run : run.subarray(0, backslash);
      if (text.byteLength > 0 || (backslash < 0 && quote >= 0)) this.#refuseHalfPair();
      if (text.byteLength > 0) put(text);
      if (backslash >= 0) {
        this.#escape = "\\";
        position += backslash + 1;
      } else if (quote >= 0) {
        return quote + 1;
      } else {
        position = end;
      }
    }
    return undefined;
  }

  #tryEscape(put: (text: Uint8Array) => void): void {
    const letter = this.#escape[1]!;
    if (letter !== "u") {
      const text = simple[letter];
      if (text === undefined) throw notJson();
      this.#refuseHalfPair();
      this.#escape = "";
      put(Buffer.from(text));
      return;
    }
    if (this.#escape.length < 6) return;
    const digits = this.#escape.slice(2);
    this.#escape = "";
    if (!/^[0-9a-fA-F]{4}$/.test(digits)) throw notJson();
    const unit = Number.parseInt(digits, 16);
    if (this.#high !== undefined) {
      if (unit < 0xdc00 || unit > 0xdfff) throw notJson();
      put(Buffer.from(String.fromCharCode(this.#high, unit)));
      this.#high = undefined;
    } else if (unit >= 0xd800 && unit <= 0xdbff) this.#high = unit;
    else if (unit >= 0xdc00 && unit <= 0xdfff) throw notJson();
    else put(Buffer.from(String.fromCharCode(unit)));
  }

  #refuseHalfPair(): void {
    if (this.#high !== undefined) throw notJson();
  }
}

function notJson() {
  return badRequest("a string in the commit is not valid JSON");
}
