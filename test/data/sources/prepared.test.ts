import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { DocumentSource } from "../../../src/data/documents.js";
import type { Tokenizer } from "../../../src/data/index.js";
import { type Encoder, encoderOf } from "../../../src/data/prepared/encoder.js";
import { openPrepared } from "../../../src/data/prepared/open-prepared.js";
import { prepareCorpus } from "../../../src/data/prepared/prepare-corpus.js";
import { openDocuments } from "../../../src/data/sources/open-documents.js";
import { DataError } from "../../../src/util/errors.js";
import { temporaryFolder } from "../helpers.js";
import { byteEncoder, documentsOf, separator, specOf, tokensOf, writePlainForms } from "./corpus.js";

const encode = (text: string) => [...new TextEncoder().encode(text)];

async function sourceOf(folder: string, documents: readonly string[], more = {}) {
  const path = join(folder, "source.txt");
  await writeFile(path, documents.join(separator));
  return openDocuments({
    specs: [specOf({ paths: [path], separator }) as never],
    badRecordLimit: 0,
    ...more,
  });
}

/** All files of a folder, byte for byte. */
function bytesIn(folder: string): Record<string, string> {
  const names = readdirSync(folder).sort();
  return Object.fromEntries(names.map((name) => [name, readFileSync(join(folder, name)).toString("hex")]));
}

describe("prepared ids", () => {
  it("are the bytes of each document and the id that ends it", async () => {
    const folder = await temporaryFolder();
    const source = await sourceOf(folder, ["ab", "c", "dé"]);
    const directory = join(folder, "out");
    const { manifest, wasThere } = await prepareCorpus({ source, encoder: byteEncoder, directory });
    expect(wasThere).toBe(false);
    expect(manifest).toMatchObject({
      dtype: "uint16",
      tokens: 9,
      documents: 3,
      vocab_size: 257,
      end_of_text: 256,
    });
    const corpus = await openPrepared(directory);
    expect([...(await corpus.read(0, 9))]).toEqual([
      ...encode("ab"),
      256,
      ...encode("c"),
      256,
      ...encode("dé"),
      256,
    ]);
    expect([...corpus.documentStarts]).toEqual([0, 3, 5, 9]);
    expect(corpus.endOfText).toBe(256);
    await corpus.close();
  });

  it("are equal for every form of the same documents", async () => {
    const folder = await temporaryFolder();
    const documents = documentsOf(80);
    const { entries } = await writePlainForms(join(folder, "forms"), documents);
    const expected = documents.flatMap((text) => [...encode(text), 256]);
    const { txt, ...others } = entries;
    const first = await tokensOf(txt!, join(folder, "cache"));
    expect(first.ids).toEqual(expected);
    for (const entry of Object.values(others))
      expect(await tokensOf(entry, join(folder, "cache"))).toEqual(first);

    const directory = join(folder, "prepared");
    const source = await openDocuments({ specs: [specOf(txt!) as never], badRecordLimit: 0 });
    await prepareCorpus({ source, encoder: byteEncoder, directory, tokensPerShard: 1000 });
    expect(await tokensOf({ paths: [directory] }, join(folder, "unused"))).toMatchObject({
      ids: first.ids,
      documentStarts: first.documentStarts,
    });
    expect(readdirSync(folder).sort()).toEqual(["cache", "forms", "prepared"]);
  });

  it("are the same files whatever the number of workers", async () => {
    const folder = await temporaryFolder();
    const source = await sourceOf(folder, documentsOf(3000, 3, 200));
    const results = [];
    for (const workers of [1, 4]) {
      const directory = join(folder, `by-${workers}`);
      await prepareCorpus({ source, encoder: byteEncoder, directory, workers, tokensPerShard: 500_000 });
      results.push(bytesIn(directory));
    }
    expect(Object.keys(results[0]!)).toEqual([
      "documents.bin",
      "manifest.json",
      "tokens-00000.bin",
      "tokens-00001.bin",
      "tokens-00002.bin",
      "tokens-00003.bin",
      "tokens-00004.bin",
      "tokens-00005.bin",
    ]);
    expect(results[1]).toEqual(results[0]);
  });

  it("are read across shards, from memory and by range alike", async () => {
    const folder = await temporaryFolder();
    const source = await sourceOf(folder, documentsOf(20));
    const directory = join(folder, "out");
    const { manifest } = await prepareCorpus({ source, encoder: byteEncoder, directory, tokensPerShard: 97 });
    expect(manifest.shards.length).toBeGreaterThan(10);
    const inMemory = await openPrepared(directory);
    const byRange = await openPrepared(directory, { memoryLimitBytes: 0 });
    const all = await inMemory.read(0, inMemory.length);
    for (const [start, end] of [
      [0, inMemory.length],
      [0, 1],
      [96, 98],
      [97, 97],
      [50, 500],
      [inMemory.length - 1, inMemory.length],
    ] as const) {
      expect(await byRange.read(start, end)).toEqual(all.slice(start, end));
      expect(await inMemory.read(start, end)).toEqual(all.slice(start, end));
    }
    await byRange.close();
    await expect(byRange.read(0, 1)).rejects.toMatchObject({ code: "data.closed" });
  });

  it("are the first ones where only so many are wanted, and no more text is read", async () => {
    const folder = await temporaryFolder();
    const whole = await sourceOf(folder, ["ab", "cdef", "g"]);
    const read: string[] = [];
    const source: DocumentSource = {
      label: whole.label,
      fingerprint: () => whole.fingerprint(),
      async *documents() {
        for await (const document of whole.documents()) {
          read.push("text" in document ? document.text : "");
          // Each fills a batch of its own.
          yield { ...document, text: `${read.at(-1)}${" ".repeat(2 ** 18)}` };
        }
      },
    };
    const maxTokens = 2 ** 18 + 3 + 4;
    const directory = join(folder, "out");
    const { manifest } = await prepareCorpus({ source, encoder: byteEncoder, directory, maxTokens });
    expect(manifest).toMatchObject({ tokens: maxTokens, documents: 2, max_tokens: maxTokens });
    expect(read).toEqual(["ab", "cdef"]);
    const corpus = await openPrepared(directory);
    expect([...corpus.documentStarts]).toEqual([0, 2 ** 18 + 3, maxTokens]);
    expect([...(await corpus.read(maxTokens - 5, maxTokens))]).toEqual([256, ...encode("cdef")]);
    await expect(prepareCorpus({ source, encoder: byteEncoder, directory })).rejects.toThrow(
      /fewer or more of them/,
    );
  });

  it("of large vocabularies have four bytes each", async () => {
    const folder = await temporaryFolder();
    const source = await sourceOf(folder, ["a"]);
    const directory = join(folder, "out");
    const { manifest } = await prepareCorpus({
      source,
      encoder: encoderOf(byteEncoder.tokenizer, 70_000),
      directory,
    });
    expect(manifest).toMatchObject({ dtype: "uint32", vocab_size: 70_001 });
    expect([...(await (await openPrepared(directory)).read(0, 2))]).toEqual([97, 70_000]);
  });

  it("of a document in pieces are one document", async () => {
    const folder = await temporaryFolder();
    const text = "0123456789abcde\n".repeat(600_000);
    const path = join(folder, "long.txt");
    await writeFile(path, text);
    const { documentStarts, ids } = await tokensOf({ paths: [path] }, join(folder, "cache"));
    expect(documentStarts).toEqual([0, text.length + 1]);
    expect(Buffer.from(ids.slice(0, -1)).toString() === text).toBe(true);
  });
});

describe("a folder of prepared ids", () => {
  const documents = documentsOf(10);

  async function prepared(encoder: Encoder = byteEncoder) {
    const folder = await temporaryFolder();
    const directory = join(folder, "out");
    const source = await sourceOf(folder, documents);
    const prepare = () => prepareCorpus({ source, encoder, directory });
    await prepare();
    return { folder, directory, source, prepare };
  }

  it("is left as it is when it holds the same, and refused when it does not", async () => {
    const { directory, prepare, folder } = await prepared();
    const before = bytesIn(directory);
    expect((await prepare()).wasThere).toBe(true);
    expect(bytesIn(directory)).toEqual(before);
    const other = await sourceOf(folder, ["other"]);
    await expect(prepareCorpus({ source: other, encoder: byteEncoder, directory })).rejects.toMatchObject({
      code: "data.folder_taken",
    });
    const encoder = encoderOf(byteEncoder.tokenizer, null);
    const source = await sourceOf(folder, documents);
    await expect(prepareCorpus({ source, encoder, directory })).rejects.toThrow(/holds other prepared data/);
  });

  it("is finished when a run before was stopped on the way", async () => {
    const { directory, prepare } = await prepared();
    const before = bytesIn(directory);
    await rm(join(directory, "manifest.json"));
    writeFileSync(join(directory, "tokens-00000.bin"), "half");
    writeFileSync(join(directory, ".tokens-00001.bin.999999999-0123456789abcdef.tmp"), "less");
    await expect(openPrepared(directory)).rejects.toMatchObject({ code: "data.not_prepared" });
    expect((await prepare()).wasThere).toBe(false);
    expect(bytesIn(directory)).toEqual(before);
  });

  it("is left empty where not one token came", async () => {
    const folder = await temporaryFolder();
    const directory = join(folder, "nothing");
    const source = await sourceOf(folder, [""]);
    const encoder = encoderOf(byteEncoder.tokenizer, null);
    await expect(prepareCorpus({ source, encoder, directory })).rejects.toMatchObject({ code: "data.empty" });
    expect(Object.keys(bytesIn(directory))).toEqual([]);
  });

  it("keeps what is not its own", async () => {
    const { folder, source } = await prepared();
    await expect(prepareCorpus({ source, encoder: byteEncoder, directory: folder })).rejects.toThrow(
      /is not empty/,
    );
  });

  it("is left without a manifest when its text fails", async () => {
    const folder = await temporaryFolder();
    const path = join(folder, "bad.jsonl");
    await writeFile(path, `{"text": "fine"}\n{"text": 1}\n`);
    const source = await openDocuments({ specs: [specOf({ paths: [path] }) as never], badRecordLimit: 0 });
    const directory = join(folder, "out");
    await expect(prepareCorpus({ source, encoder: byteEncoder, directory })).rejects.toMatchObject({
      code: "data.bad_records",
    });
    expect(readdirSync(directory)).toEqual([]);
  });

  it("is refused when a byte of it changed, when a file is short, and when it has the ids of another tokenizer", async () => {
    const { directory } = await prepared();
    const file = join(directory, "tokens-00000.bin");
    const good = readFileSync(file);
    const bad = Buffer.from(good);
    bad[10]! ^= 1;
    writeFileSync(file, bad);
    await expect(openPrepared(directory)).rejects.toThrow(/its hash is another/);
    writeFileSync(file, good.subarray(2));
    await expect(openPrepared(directory)).rejects.toThrow(/it has \d+ of \d+ bytes/);
    writeFileSync(file, good);
    const shout: Tokenizer = {
      ...byteEncoder.tokenizer,
      vocabSize: 256,
      encode: () => Int32Array.of(1),
    } as Tokenizer;
    const cache = await temporaryFolder();
    await expect(tokensOf({ paths: [directory] }, cache, encoderOf(shout, 256))).rejects.toThrow(
      /prepared with another tokenizer/,
    );
    await expect(
      tokensOf({ paths: [directory] }, cache, encoderOf(byteEncoder.tokenizer, null)),
    ).rejects.toThrow(
      /the end-of-text id 256 after each document, the configuration asks for no end-of-text id/,
    );
  });

  it("names a tokenizer whose ids are outside its vocabulary", async () => {
    const folder = await temporaryFolder();
    const broken = { vocabSize: 10, encode: () => Int32Array.of(3, 12) } as unknown as Tokenizer;
    const source = await sourceOf(folder, ["x"]);
    const failed = prepareCorpus({
      source,
      encoder: encoderOf(broken, null),
      directory: join(folder, "out"),
    });
    await expect(failed).rejects.toThrow(/gave id 12 .* outside its vocabulary of 10/);
    await expect(failed).rejects.toBeInstanceOf(DataError);
  });
});
