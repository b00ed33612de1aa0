// A commit request (one JSON object per line) read as a stream. File contents can be larger than any string, so the
// value of `content` goes to a sink while it arrives; the rest of the line is small and parsed as usual.

import { badRequest, tooLarge } from "../errors.js";
import { parseJsonObject } from "./body.js";
import { JsonStringReader } from "./json-string.js";

/** Takes the text of one `content`, unescaped. `write` must not keep the piece. */
export interface ContentSink {
  write(text: Uint8Array): Promise<void>;
}

export interface CommitLine<Sink extends ContentSink> {
  /** The parsed line; `value.content` is the empty string where it went to the sink. */
  readonly json: Record<string, unknown>;
  readonly sink?: Sink;
}

/** Of a line without the content: paths, titles and descriptions. */
const MAX_LINE_BYTES = 2 ** 18;
/** In one commit. No client sends any but the last. */
const MAX_BLANK_LINES = 1000;

const Byte = { newline: 0x0a, quote: 0x22, backslash: 0x5c, colon: 0x3a, comma: 0x2c };
const opens = new Set([0x7b, 0x5b]);
const closes = new Set([0x7d, 0x5d]);

/** `openSink` is called at the start of each content. Sinks of lines that were not yielded are the caller's too. */
export async function* readCommitLines<Sink extends ContentSink>(
  chunks: AsyncIterable<Uint8Array>,
  openSink: () => Promise<Sink>,
): AsyncGenerator<CommitLine<Sink>> {
  const scanner = new LineScanner<Sink>();
  for await (const chunk of chunks) {
    let position = 0;
    while (position < chunk.byteLength) {
      if (scanner.content !== undefined) {
        const { reader, sink } = scanner.content;
        const pieces: Uint8Array[] = [];
        const end = reader.read(chunk, position, (piece) => pieces.push(piece));
        for (const piece of pieces) await sink.write(piece);
        if (end !== undefined) scanner.endContent();
        position = end ?? chunk.byteLength;
        continue;
      }
      const stop = scanner.scan(chunk, position);
      position = stop.position;
      if (stop.reason === "content") await scanner.beginContent(openSink);
      if (stop.reason === "line") {
        const line = scanner.takeLine();
        if (line !== undefined) yield line;
      }
    }
  }
  const last = scanner.takeLine();
  if (last !== undefined) yield last;
}

interface Stop {
  readonly position: number;
  readonly reason: "line" | "content" | "chunk";
}

/** Finds line ends and the string that is `value.content`. Full syntax is left to JSON.parse. */
class LineScanner<Sink extends ContentSink> {
  content: { readonly reader: JsonStringReader; readonly sink: Sink } | undefined;
  #sink: Sink | undefined;
  readonly #line: number[] = [];
  /** Names that lead to where we are: index 1 is the key in the outermost object. */
  readonly #keys: string[] = [];
  #depth = 0;
  #stringStart: number | undefined;
  #isEscaped = false;
  #lastString = "";
  #isValueNext = false;
  #blankLines = 0;

  scan(chunk: Uint8Array, from: number): Stop {
    for (let position = from; position < chunk.byteLength; position++) {
      const byte = chunk[position]!;
      if (this.#stringStart !== undefined) {
        this.#append(byte);
        if (this.#isEscaped) this.#isEscaped = false;
        else if (byte === Byte.backslash) this.#isEscaped = true;
        else if (byte === Byte.quote) {
          this.#lastString = Buffer.from(this.#line.slice(this.#stringStart, -1)).toString();
          this.#stringStart = undefined;
          this.#isValueNext = false;
        }
        continue;
      }
      if (byte === Byte.newline) return { position: position + 1, reason: "line" };
      this.#append(byte);
      if (byte === Byte.quote) {
        if (this.#isContent()) return { position: position + 1, reason: "content" };
        this.#stringStart = this.#line.length;
      } else if (byte === Byte.colon) {
        this.#keys[this.#depth] = this.#lastString;
        this.#isValueNext = true;
      } else if (opens.has(byte)) {
        this.#depth += 1;
        this.#keys[this.#depth] = "";
        this.#isValueNext = false;
      } else if (closes.has(byte)) {
        this.#depth -= 1;
        if (this.#depth < 0) throw badRequest("a line of the commit closes more brackets than it opens");
      } else if (byte === Byte.comma) this.#isValueNext = false;
    }
    return { position: chunk.byteLength, reason: "chunk" };
  }

  async beginContent(openSink: () => Promise<Sink>): Promise<void> {
    if (this.#sink !== undefined) throw badRequest("a line of the commit has two contents");
    this.#sink = await openSink();
    this.content = { reader: new JsonStringReader(), sink: this.#sink };
  }

  endContent(): void {
    this.content = undefined;
    this.#append(Byte.quote);
    this.#isValueNext = false;
  }

  /** Undefined for a blank line. */
  takeLine(): CommitLine<Sink> | undefined {
    if (this.content !== undefined) throw badRequest("the commit ends in the middle of a file's content");
    const text = Buffer.from(this.#line).toString();
    const sink = this.#sink;
    this.#line.length = 0;
    this.#keys.length = 0;
    this.#depth = 0;
    this.#stringStart = undefined;
    this.#isEscaped = false;
    this.#isValueNext = false;
    this.#sink = undefined;
    if (text.trim() === "") {
      this.#blankLines += 1;
      if (this.#blankLines > MAX_BLANK_LINES)
        throw tooLarge(`the commit has more than ${MAX_BLANK_LINES} blank lines`);
      return undefined;
    }
    const json = parseJsonObject(text, "a line of the commit");
    return sink === undefined ? { json } : { json, sink };
  }

  #isContent(): boolean {
    return this.#isValueNext && this.#depth === 2 && this.#keys[1] === "value" && this.#keys[2] === "content";
  }

  #append(byte: number): void {
    if (this.#line.length >= MAX_LINE_BYTES) {
      throw tooLarge(`a line of the commit has more than ${MAX_LINE_BYTES} bytes besides the content`);
    }
    this.#line.push(byte);
  }
}
