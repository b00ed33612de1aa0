// Tokenizers of tokenizer.json files against what the `tokenizers` package makes of the same texts
// (interop/make_tokenizer_fixtures.py).

import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { JsonTokenizer } from "../../../src/data/tokenizers/json-tokenizer.js";
import { openTokenizer } from "../../../src/data/tokenizers/open-tokenizer.js";

const fixture = (name: string) => new URL(`../../fixtures/tokenizers/${name}.json`, import.meta.url);
const read = (name: string) => readFileSync(fixture(name), "utf8");

interface Golden {
  readonly vocab_size: number;
  readonly end: number;
  readonly cases: readonly { readonly text: string; readonly ids: number[]; readonly decoded: string }[];
}
const golden = JSON.parse(read("golden")) as Record<string, Golden>;

describe.each(Object.keys(golden))("%s", (name) => {
  const tokenizer = new JsonTokenizer(read(name), name);
  const { vocab_size, end, cases } = golden[name]!;

  it("knows its size and its marks", () => {
    expect(tokenizer.vocabSize).toBe(vocab_size);
    expect(tokenizer.idOf("<|end|>")).toBe(end);
    expect(tokenizer.idOf("<|nothing|>")).toBeUndefined();
  });

  it.each(cases)("gives the ids of $text", ({ text, ids }) => {
    expect([...tokenizer.encode(text)]).toEqual(ids);
  });

  it.each(cases)("gives the text of the ids of $text", ({ ids, decoded }) => {
    expect(tokenizer.decode(ids)).toBe(decoded);
  });

  it.each(cases)("writes $text piece by piece as at once", ({ ids, decoded }) => {
    const stream = tokenizer.decoder();
    expect(ids.map((id) => stream.push(id)).join("") + stream.end()).toBe(decoded);
  });
});

it("an id without a token is shown as what cannot be read", () => {
  const tokenizer = new JsonTokenizer(read("byte-level-bpe"));
  const ids = [...tokenizer.encode("a")];
  expect(tokenizer.decode([...ids, 100_000, ...ids])).toBe("a\uFFFDa");
});

it.each(["", "{", "[]", "{}", '{"model": {"type": "BPE"}}', '{"model": {"type": "Telepathy", "vocab": {}}}'])(
  "%j describes no tokenizer",
  (source) => {
    expect(() => new JsonTokenizer(source, "there/tokenizer.json")).toThrow(
      /^there\/tokenizer\.json (?:does not describe a tokenizer|has an empty vocabulary)/,
    );
  },
);

it("a file that is not there is named", async () => {
  await expect(openTokenizer("nowhere/tokenizer.json")).rejects.toMatchObject({
    code: "data.tokenizer_missing",
    message: expect.stringContaining("nowhere/tokenizer.json"),
  });
});
