import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ByteTokenizer } from "../../src/data/index.js";

const tokenizer = new ByteTokenizer();

function stream(ids: readonly number[]): string[] {
  const decoder = tokenizer.decoder();
  return [...ids.map((id) => decoder.push(id)), decoder.end()];
}

describe("ByteTokenizer", () => {
  it("gives back every text, at once and streamed", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme" }), (text) => {
        const ids = tokenizer.encode(text);
        expect(tokenizer.decode(ids)).toBe(text);
        expect(stream([...ids]).join("")).toBe(text);
      }),
      { seed: 2, examples: [["\ufeffmark\r\n\0"], ["\u{1f40b}é"]] },
    );
  });

  it("streams any ids to the same text as decoding them at once", () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 511 })), (ids) => {
        expect(stream(ids).join("")).toBe(tokenizer.decode(ids));
      }),
      { seed: 3 },
    );
  });

  it("holds an incomplete character back until its last byte", () => {
    expect(stream([0x41, 0xe2, 0x82, 0xac, 0x42])).toEqual(["A", "", "", "€", "B", ""]);
  });

  it("shows U+FFFD at once for wrong bytes, and at the end for a character cut short", () => {
    expect(stream([0x80, 0x41])).toEqual(["\ufffd", "A", ""]);
    expect(stream([0xe2, 0x41])).toEqual(["", "\ufffdA", ""]);
    expect(stream([0x41, 0xf0, 0x9f])).toEqual(["A", "", "", "\ufffd"]);
  });

  it("shows U+FFFD for ids that are no bytes", () => {
    expect(tokenizer.decode([0x41, 300, 0x42])).toBe("A\ufffdB");
    expect(tokenizer.decode([0x41, -100, 0x42])).toBe("A\ufffdB");
  });

  it("refuses bytes without an id", () => {
    expect(() => new ByteTokenizer({ vocabSize: 128 }).encode("aé")).toThrow(
      "The vocabulary is too small for the tokenizer: the text to encode has byte 195 (0xc3) at offset 1, " +
        "but the largest id of a vocabulary of 128 is 127.",
    );
  });

  it("wraps bytes around when told to", () => {
    const wrapping = new ByteTokenizer({ vocabSize: 32, overflow: "modulo" });
    expect([...wrapping.encode("abc")]).toEqual([1, 2, 3]);
  });

  it("never claims more than 256 ids", () => {
    expect(new ByteTokenizer({ vocabSize: 512 }).vocabSize).toBe(256);
  });
});
