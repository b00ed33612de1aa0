// The streaming reader of commit requests against JSON.parse: whatever the text, its order and where it is cut.

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Base64Decoder } from "../../src/hub-server/http/base64-decoder.js";
import { readCommitLines } from "../../src/hub-server/http/commit-lines.js";

class TextSink {
  readonly #pieces: Buffer[] = [];
  async write(text: Uint8Array): Promise<void> {
    this.#pieces.push(Buffer.from(text));
  }
  text(): string {
    return Buffer.concat(this.#pieces).toString();
  }
}

/** Every line as JSON.parse would give it. */
async function readAll(body: Uint8Array, cuts: readonly number[]): Promise<unknown[]> {
  const edges = [0, ...cuts.map((cut) => cut % (body.byteLength + 1)).sort((a, b) => a - b), body.byteLength];
  const chunks = (async function* () {
    for (let index = 1; index < edges.length; index++) {
      // A piece is the socket's: what is read later must not depend on it.
      const piece = Uint8Array.from(body.subarray(edges[index - 1], edges[index]));
      yield piece;
      piece.fill(0x58);
    }
  })();
  const lines: unknown[] = [];
  for await (const { json, sink } of readCommitLines(chunks, async () => new TextSink())) {
    if (sink !== undefined) {
      expect((json.value as { content: string }).content).toBe("");
      (json.value as { content: string }).content = sink.text();
    }
    lines.push(json);
  }
  return lines;
}

const text = fc.string({ unit: "grapheme", maxLength: 40 });
const plain = fc.oneof(text, fc.integer(), fc.boolean(), fc.constant(null), fc.array(text, { maxLength: 3 }));
const value = fc
  .tuple(fc.dictionary(text, plain, { maxKeys: 4, noNullPrototype: true }), fc.option(text), fc.nat(4))
  .map(([others, content, at]) => {
    const entries = Object.entries(others).filter(([key]) => key !== "content");
    if (content !== null) entries.splice(at % (entries.length + 1), 0, ["content", content]);
    return Object.fromEntries(entries);
  });
const line = fc.oneof(
  fc.record({ key: text, value }),
  fc.record({ value, key: text }),
  fc.record({
    key: text,
    content: text,
    other: fc.record({ content: text, value: fc.record({ content: text }) }),
  }),
  fc.record({ key: fc.constant("x"), value: fc.array(fc.record({ content: text }), { maxLength: 3 }) }),
  fc.record({ content: text, value: fc.record({ deep: fc.record({ content: text }), content: text }) }),
);

/** JSON has many spellings of one value. */
function spell(value: object, style: number): string {
  const json =
    style % 2 === 0
      ? JSON.stringify(value)
      : JSON.stringify(value).replaceAll('":', '" : \t').replaceAll("/", "\\/");
  if (style < 2) return json;
  return json.replaceAll(
    /[\u0080-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

describe("reading a commit", () => {
  it("gives what JSON.parse gives, however it is cut", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(line, { maxLength: 4 }),
        fc.nat(3),
        fc.array(fc.nat(), { maxLength: 12 }),
        fc.constantFrom("\n", "\n\n", "\r\n"),
        fc.boolean(),
        async (lines, style, cuts, separator, endsWithNewline) => {
          const spelled = lines.map((one) => spell(one, style));
          const body = Buffer.from(spelled.join(separator) + (endsWithNewline ? "\n" : ""));
          expect(await readAll(body, cuts)).toEqual(spelled.map((one) => JSON.parse(one)));
        },
      ),
      { seed: 11, numRuns: 500 },
    );
  });

  it("gives the same for one byte at a time", async () => {
    const lines = [{ key: "file", value: { content: 'a"\\\n\u0001é€😀\ud83d\ude00', path: "p" } }];
    for (const style of [0, 1, 2, 3]) {
      const body = Buffer.from(spell(lines[0]!, style));
      expect(
        await readAll(
          body,
          Array.from(body, (_, index) => index),
        ),
      ).toEqual(lines);
    }
  });
});

describe("base64", () => {
  const decode = (pieces: readonly string[]) => {
    const decoder = new Base64Decoder();
    const out = pieces.map((piece) => Buffer.from(decoder.push(Buffer.from(piece))));
    return Buffer.concat([...out, decoder.finish()]);
  };

  it("decodes what Buffer encodes, in pieces of any length", () => {
    fc.assert(
      fc.property(
        fc.uint8Array({ maxLength: 100 }),
        fc.array(fc.nat(140), { maxLength: 6 }),
        fc.boolean(),
        (bytes, cuts, isPadded) => {
          const encoded = Buffer.from(bytes)
            .toString("base64")
            .replace(isPadded ? /$^/ : /=+$/, "");
          const edges = [0, ...[...cuts].sort((a, b) => a - b), encoded.length];
          const pieces = edges.slice(1).map((edge, index) => encoded.slice(edges[index], edge));
          expect(decode(pieces)).toEqual(Buffer.from(bytes));
        },
      ),
      { seed: 3, numRuns: 500 },
    );
  });

  it.each([
    ["YQ==", "YQ=="],
    ["YQ=", "=YQ=="],
    ["Y"],
    ["YWE*"],
    ["YW E"],
    ["Y===", ""],
    ["===="],
    ["YWFhY"],
    ["Y\u00ff=="],
  ])("refuses %j", (...pieces) => {
    expect(() => decode(pieces)).toThrow(/not base64/);
  });
});
