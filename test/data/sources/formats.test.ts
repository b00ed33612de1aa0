import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { DataSourceOptions } from "../../../src/data/options.js";
import type { BadRecord } from "../../../src/data/sources/bad-records.js";
import { openDocuments } from "../../../src/data/sources/open-documents.js";
import { recordText } from "../../../src/data/sources/record-text.js";
import { splitBytes } from "../../../src/data/sources/split-bytes.js";
import { ConfigError, DataError } from "../../../src/util/errors.js";
import { temporaryFolder } from "../helpers.js";
import { documentsOf, documentsOfEntry, separator, specOf, textsOf, writePlainForms } from "./corpus.js";

const encode = (text: string) => new TextEncoder().encode(text);

async function* chunked(bytes: Uint8Array, size: number) {
  for (let start = 0; start < bytes.length; start += size) yield bytes.subarray(start, start + size);
}

async function segments(bytes: Uint8Array, mark: string, size: number, limit: number): Promise<string[]> {
  const found: string[] = [];
  for await (const { bytes: part, isTooLong } of splitBytes(chunked(bytes, size), encode(mark), limit))
    found.push((isTooLong ? "long:" : "") + Buffer.from(part).toString("latin1"));
  return found;
}

describe("splitting bytes", () => {
  it("gives what String.split gives, in chunks of any size", async () => {
    const piece = fc.constantFrom("a", "b", "-", "--", "-=", "=-", "\n");
    const property = fc.asyncProperty(
      fc.array(piece, { maxLength: 30 }),
      fc.constantFrom("\n", "--", "-=-"),
      fc.integer({ min: 1, max: 7 }),
      async (pieces, mark, size) => {
        const text = pieces.join("");
        const expected = text.split(mark);
        if (expected.at(-1) === "") expected.pop();
        expect(await segments(encode(text), mark, size, 1000)).toEqual(expected);
      },
    );
    await fc.assert(property, { numRuns: 300 });
  });

  it("marks a segment over the limit, in chunks of any size, and spoils no other", async () => {
    for (const size of [1, 2, 3, 100])
      expect(await segments(encode("abc--abcd--abcde--ab"), "--", size, 4)).toEqual([
        "abc",
        "abcd",
        "long:abcd",
        "ab",
      ]);
  });
});

describe("documents", () => {
  it("are the same from every plain form, in chunks of any size", async () => {
    const documents = documentsOf(60);
    const { entries } = await writePlainForms(await temporaryFolder(), documents);
    for (const [form, entry] of Object.entries(entries))
      for (const chunkBytes of [17, 4096, 2 ** 20])
        expect([form, await documentsOfEntry(entry, { chunkBytes })]).toEqual([form, documents]);
  });

  it("begin anywhere, with the numbers that they have from the start", async () => {
    const { entries } = await writePlainForms(await temporaryFolder(), documentsOf(30));
    for (const entry of Object.values(entries)) {
      const source = await openDocuments({ specs: [specOf(entry) as never], badRecordLimit: 0 });
      const all = [];
      for await (const document of source.documents()) all.push(document);
      for (const from of [0, 1, 11, all.at(-1)!.index, all.at(-1)!.index + 1]) {
        const rest = [];
        for await (const document of source.documents(from)) rest.push(document);
        expect(rest).toEqual(all.filter(({ index }) => index >= from));
      }
    }
  });

  it("have a fingerprint of their content, not of their folder", async () => {
    const fingerprints = async (folder: string, texts: string[]) => {
      const { entries } = await writePlainForms(folder, texts);
      return Promise.all(
        ["txt", "jsonl", "parts"].map(async (form) => {
          const source = await openDocuments({ specs: [specOf(entries[form]!) as never], badRecordLimit: 0 });
          return source.fingerprint();
        }),
      );
    };
    const texts = documentsOf(20);
    const first = await fingerprints(await temporaryFolder(), texts);
    expect(await fingerprints(await temporaryFolder(), texts)).toEqual(first);
    const other = await fingerprints(await temporaryFolder(), [...texts.slice(0, 19), "another\n"]);
    for (let i = 0; i < first.length; i++) expect(other[i]).not.toBe(first[i]);
  });

  it("of many megabytes come in pieces that join to the text, cut where its content says", async () => {
    const folder = await temporaryFolder();
    const line = `${"wörd ".repeat(30)}\n  indented\n`;
    const text = line.repeat(Math.ceil(9e6 / encode(line).length));
    await writeFile(join(folder, "long.txt"), text);
    const cuts = [];
    for (const chunkBytes of [99_991, 2 ** 20]) {
      const spec = specOf({ paths: [join(folder, "long.txt")] });
      const source = await openDocuments({ specs: [spec as never], badRecordLimit: 0, chunkBytes });
      const pieces = [];
      for await (const piece of source.documents())
        pieces.push(piece as { text: string; isContinued?: boolean });
      expect(pieces.map(({ text: part }) => part).join("") === text).toBe(true);
      expect(pieces.map(({ isContinued }) => isContinued ?? false)).toEqual([true, true, false]);
      for (const { text: part } of pieces.slice(1)) expect(part.startsWith("wörd")).toBe(true);
      cuts.push(pieces.map(({ text: part }) => part.length));
    }
    expect(cuts[0]).toEqual(cuts[1]);
  });

  it("keep every character of a text without a single line end", async () => {
    const folder = await temporaryFolder();
    const text = "é🙂".repeat(900_000);
    await writeFile(join(folder, "flat.txt"), text);
    expect((await documentsOfEntry({ paths: [join(folder, "flat.txt")] })).join("") === text).toBe(true);
  });

  it("of an archive that is cut off are an error that names the file", async () => {
    const folder = await temporaryFolder();
    const packed = gzipSync(documentsOf(200).join(separator));
    await writeFile(join(folder, "cut.txt.gz"), packed.subarray(0, packed.length / 2));
    const failed = documentsOfEntry({ paths: [join(folder, "cut.txt.gz")], separator });
    await expect(failed).rejects.toThrow(/cut\.txt\.gz cannot be decompressed/);
    await expect(failed).rejects.toBeInstanceOf(DataError);
  });

  it("of several patterns come in their order, each file once", async () => {
    const folder = await temporaryFolder();
    for (const name of ["b", "a", "c"]) await writeFile(join(folder, `${name}.txt`), name);
    const paths = [join(folder, "c.txt"), join(folder, "*.txt")];
    expect(await documentsOfEntry({ paths })).toEqual(["c", "a", "b"]);
  });

  it("of an unknown address are refused", async () => {
    await expect(documentsOfEntry({ paths: ["s3://bucket/x"] })).rejects.toThrow(/s3:\/\/ is not known here/);
  });
});

describe("bad records", () => {
  const lines = ['{"text": "one"}', "{oops", "[1]", "", '{"body": "x"}', '{"text": 5}', '{"text": "two"}'];

  async function read(badRecordLimit: number, entry: Partial<DataSourceOptions> = {}) {
    const folder = await temporaryFolder();
    const path = join(folder, "mixed.jsonl");
    await writeFile(path, Buffer.concat([encode(`${lines.join("\n")}\n`), Uint8Array.of(0xff, 0x0a)]));
    const found: BadRecord[] = [];
    const source = await openDocuments({
      specs: [specOf({ paths: [path], ...entry }) as never],
      badRecordLimit,
      onBadRecord: (record) => found.push(record),
    });
    const texts = textsOf(source);
    await texts.catch(() => undefined);
    const plain = found.map(({ where, reason }) => `${where.replace(folder, "")}: ${reason}`);
    return { texts, plain, source };
  }

  it("are left out, each with its place and what is wrong", async () => {
    const { texts, plain } = await read(5);
    expect(await texts).toEqual(["one", "two"]);
    expect(plain).toEqual([
      expect.stringMatching(/^\/mixed\.jsonl, line 2: it is not JSON: /),
      "/mixed.jsonl, line 3: it is JSON, but no object",
      '/mixed.jsonl, line 5: it has no field "text"',
      '/mixed.jsonl, line 6: its field "text" is number, not a text',
      "/mixed.jsonl, line 8: it is not valid UTF-8",
    ]);
  });

  it("over the limit end the run with exit code 3 and examples", async () => {
    const { texts, plain } = await read(4);
    const error = await texts.catch((caught: unknown) => caught);
    expect(error).toBeInstanceOf(DataError);
    expect(error).toMatchObject({ code: "data.bad_records", exitCode: 3, details: { count: 5, limit: 4 } });
    expect((error as DataError).message).toMatch(
      /^5 records cannot be used, and data.bad_record_limit is 4:\n.*line 2/,
    );
    expect(plain).toHaveLength(5);
  });

  it("are counted for each walk anew", async () => {
    const { texts, source } = await read(5);
    await texts;
    expect(await textsOf(source)).toEqual(["one", "two"]);
    expect(await textsOf(source, 5)).toEqual(["two"]);
  });

  it("of a text file are documents that are not UTF-8", async () => {
    const folder = await temporaryFolder();
    const path = join(folder, "latin.txt");
    await writeFile(path, Buffer.from("good\n--\ncaf\xe9\n--\nalso good", "latin1"));
    expect(await documentsOfEntry({ paths: [path], separator: "\n--\n" }, { badRecordLimit: 1 })).toEqual([
      "good",
      "also good",
    ]);
  });
});

describe("the text of a record", () => {
  const textOf = (template: string, record: Record<string, unknown>) =>
    recordText({ field: "text", template }).textOf(record);

  it("is made of fields, numbers and braces", () => {
    const record = { question: "1+1?", answer: { value: 2 }, "a.b": "whole name", ok: true };
    expect(textOf("Q: {question}\nA: {answer.value}", record)).toEqual({ text: "Q: 1+1?\nA: 2" });
    expect(textOf("{{{ a.b }}} {ok}", record)).toEqual({ text: "{whole name} true" });
  });

  it("is missing when a field is", () => {
    expect(textOf("{a}{b}", { a: "x" })).toEqual({ reason: 'it has no field "b"' });
    expect(textOf("{a}", { a: [1] })).toEqual({ reason: 'its field "a" is a list, not a text or a number' });
    expect(textOf("{constructor}", {})).toEqual({ reason: 'it has no field "constructor"' });
  });

  it("needs a template that is one", () => {
    for (const template of ["no field", "{open", "close}", "{}"])
      expect(() => recordText({ field: "text", template })).toThrow(ConfigError);
  });
});
