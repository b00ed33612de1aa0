// A strict, forward-only scanner over JSON text. It exists because `JSON.parse` hides duplicate keys, rounds
// large integers and treats `__proto__` as an ordinary key of ordinary objects; it builds no objects at all.
// Not a general parser: values that the caller does not want are checked and skipped.

/** Deepest nesting of arrays and objects (the reference reader's limit). */
const MAX_DEPTH = 127;

const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const HEX4 = /[0-9a-fA-F]{4}/y;
const ESCAPES: Readonly<Record<string, string>> = {
  '"': '"',
  "\\": "\\",
  "/": "/",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
};

export type JsonFault = "syntax" | "duplicate_key" | "overflow" | "not_an_integer";

/** Thrown by the scanner; the caller turns it into an error that names the file. */
export class JsonFaultError extends Error {
  readonly fault: JsonFault;
  /** Index in the text, in UTF-16 units. */
  readonly position: number;

  constructor(fault: JsonFault, message: string, position: number) {
    super(message);
    this.fault = fault;
    this.position = position;
  }
}

export class JsonScanner {
  readonly #text: string;
  #position = 0;
  #depth = 0;

  constructor(text: string) {
    this.#text = text;
  }

  get position(): number {
    return this.#position;
  }

  /** Next character after blanks, not consumed; empty at the end. */
  peek(): string {
    this.#skipBlanks();
    return this.#text.charAt(this.#position);
  }

  /** Reads an object; `onMember` gets each decoded key and must consume the value. */
  readObject(onMember: (key: string) => void): void {
    this.#open("{");
    if (!this.#take("}")) {
      do {
        this.#skipBlanks();
        const key = this.readString("a key in double quotes");
        this.#expect(":");
        onMember(key);
      } while (this.#take(","));
      this.#expect("}");
    }
    this.#depth -= 1;
  }

  /** Reads an array; `onItem` must consume one item per call. */
  readArray(onItem: () => void): void {
    this.#open("[");
    if (!this.#take("]")) {
      do onItem();
      while (this.#take(","));
      this.#expect("]");
    }
    this.#depth -= 1;
  }

  readString(what = "a string"): string {
    this.#skipBlanks();
    const text = this.#text;
    if (text.charCodeAt(this.#position) !== 0x22) this.fail("syntax", `expected ${what}`);
    const start = this.#position + 1;
    for (let i = start; i < text.length; i++) {
      const unit = text.charCodeAt(i);
      if (unit === 0x22) {
        this.#position = i + 1;
        return text.slice(start, i);
      }
      if (unit === 0x5c) return this.#readEscapedString(start, i);
      if (unit < 0x20) this.fail("syntax", "control character in a string", i);
    }
    return this.fail("syntax", "string without an end", start - 1);
  }

  /** Reads an integer from 0 to 2^53 - 1; other numbers are faults, never rounded. */
  readCount(what: string): number {
    this.#skipBlanks();
    const text = this.#text;
    const start = this.#position;
    let end = start;
    let value = 0;
    while (end < text.length) {
      const digit = text.charCodeAt(end) - 0x30;
      if (!(digit >= 0 && digit <= 9)) break;
      value = value * 10 + digit;
      end += 1;
    }
    const next = text.charAt(end);
    if (end === start || next === "." || next === "e" || next === "E") {
      this.fail("not_an_integer", `${what} must be a non-negative integer`);
    }
    if (end - start > 1 && text.charAt(start) === "0") this.fail("syntax", "number with a leading zero");
    if (value > Number.MAX_SAFE_INTEGER) {
      this.fail("overflow", `${what} ${shorten(text.slice(start, end))} is beyond 2^53 - 1`);
    }
    this.#position = end;
    return value;
  }

  /** Consumes the word `null` if it is next. */
  takeNull(): boolean {
    this.#skipBlanks();
    if (!this.#text.startsWith("null", this.#position)) return false;
    this.#position += 4;
    return true;
  }

  /** Checks and skips one value of any kind. */
  skipValue(): void {
    const first = this.peek();
    if (first === "{") {
      const keys = new Set<string>();
      this.readObject((key) => {
        if (keys.has(key)) this.fail("duplicate_key", `key ${JSON.stringify(shorten(key))} appears twice`);
        keys.add(key);
        this.skipValue();
      });
    } else if (first === "[") this.readArray(() => this.skipValue());
    else if (first === '"') this.readString();
    else if (first === "t" || first === "f" || first === "n") this.#skipWord();
    else this.#skipNumber();
  }

  expectEnd(): void {
    this.#skipBlanks();
    if (this.#position < this.#text.length) this.fail("syntax", "text after the end of the JSON object");
  }

  fail(fault: JsonFault, message: string, position = this.#position): never {
    throw new JsonFaultError(fault, message, position);
  }

  #open(bracket: "{" | "["): void {
    this.#expect(bracket);
    this.#depth += 1;
    if (this.#depth > MAX_DEPTH) this.fail("syntax", `nested deeper than ${MAX_DEPTH} levels`);
  }

  #skipBlanks(): void {
    const text = this.#text;
    let i = this.#position;
    for (; i < text.length; i++) {
      const unit = text.charCodeAt(i);
      if (unit !== 0x20 && unit !== 0x0a && unit !== 0x0d && unit !== 0x09) break;
    }
    this.#position = i;
  }

  #take(character: string): boolean {
    if (this.peek() !== character) return false;
    this.#position += 1;
    return true;
  }

  #expect(character: string): void {
    if (this.#take(character)) return;
    const found =
      this.#position < this.#text.length ? JSON.stringify(this.#text.charAt(this.#position)) : "the end";
    this.fail("syntax", `expected "${character}", found ${found}`);
  }

  #readEscapedString(start: number, firstEscape: number): string {
    const text = this.#text;
    const parts = [text.slice(start, firstEscape)];
    let i = firstEscape;
    while (i < text.length) {
      const unit = text.charCodeAt(i);
      if (unit === 0x22) {
        this.#position = i + 1;
        return parts.join("");
      }
      if (unit === 0x5c) {
        const letter = text.charAt(i + 1);
        const simple = letter === "u" ? undefined : ESCAPES[letter];
        if (letter === "u") {
          const high = this.#readHex(i + 2);
          const isPair = high >= 0xd800 && high <= 0xdbff && text.startsWith("\\u", i + 6);
          const low = isPair ? this.#readHex(i + 8) : 0;
          const isSurrogate = high >= 0xd800 && high <= 0xdfff;
          if (isSurrogate && !(isPair && low >= 0xdc00 && low <= 0xdfff)) {
            this.fail("syntax", "escape of half a surrogate pair in a string", i);
          }
          parts.push(isSurrogate ? String.fromCharCode(high, low) : String.fromCharCode(high));
          i += isSurrogate ? 12 : 6;
        } else if (simple !== undefined) {
          parts.push(simple);
          i += 2;
        } else this.fail("syntax", "unknown escape in a string", i);
        continue;
      }
      if (unit < 0x20) this.fail("syntax", "control character in a string", i);
      let end = i + 1;
      while (end < text.length && !isSpecialInString(text.charCodeAt(end))) end += 1;
      parts.push(text.slice(i, end));
      i = end;
    }
    return this.fail("syntax", "string without an end", start - 1);
  }

  #readHex(position: number): number {
    HEX4.lastIndex = position;
    const match = HEX4.exec(this.#text);
    if (match === null)
      return this.fail("syntax", "\\u must be followed by four hexadecimal digits", position);
    return Number.parseInt(match[0], 16);
  }

  #skipWord(): void {
    for (const word of ["true", "false", "null"]) {
      if (this.#text.startsWith(word, this.#position)) {
        this.#position += word.length;
        return;
      }
    }
    this.fail("syntax", "expected a value");
  }

  #skipNumber(): void {
    NUMBER.lastIndex = this.#position;
    const number = NUMBER.exec(this.#text)?.[0] ?? this.fail("syntax", "expected a value");
    if (!Number.isFinite(Number(number))) this.fail("overflow", `number ${shorten(number)} is out of range`);
    this.#position += number.length;
  }
}

function isSpecialInString(unit: number): boolean {
  return unit === 0x22 || unit === 0x5c || unit < 0x20;
}

function shorten(text: string): string {
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
}
