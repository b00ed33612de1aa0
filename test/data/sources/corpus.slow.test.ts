// The size at which chunks, pieces, shards and threads all come into play: ten megabytes in every form, and files that do
// not fit the memory that they are read in.

import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { createWriteStream } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { finished } from "node:stream/promises";
import { fileURLToPath } from "node:url";
import { createGzip } from "node:zlib";
import { parquetWriteBuffer } from "hyparquet-writer";
import { expect, it } from "vitest";
import { openPrepared } from "../../../src/data/prepared/open-prepared.js";
import { prepareCorpus } from "../../../src/data/prepared/prepare-corpus.js";
import { openDocuments } from "../../../src/data/sources/open-documents.js";
import { loadZstd } from "../../../src/data/sources/zstd.js";
import { temporaryFolder } from "../helpers.js";
import { byteEncoder, documentsOf, separator, specOf, writePlainForms } from "./corpus.js";

const child = fileURLToPath(new URL("./prepare-child.ts", import.meta.url));

it("ten megabytes are the same ids in every form, by one worker and by four", async () => {
  const { compress } = await loadZstd();
  const folder = await temporaryFolder();
  const documents = documentsOf(6700, 9, 330);
  const text = documents.join(separator);
  expect(Buffer.byteLength(text)).toBeGreaterThan(10e6);
  const { entries } = await writePlainForms(folder, documents);
  await writeFile(join(folder, "corpus.txt.zst"), compress(Buffer.from(text), 3));
  const columnData = [{ name: "text", data: documents, type: "STRING" as const }];
  const parquet = parquetWriteBuffer({ columnData, rowGroupSize: 1000 });
  await writeFile(join(folder, "corpus.parquet"), new Uint8Array(parquet));
  const forms = {
    ...entries,
    zst: { paths: [join(folder, "corpus.txt.zst")], separator },
    parquet: { paths: [join(folder, "corpus.parquet")] },
  };
  const contents: Record<string, string> = {};
  for (const [form, entry] of Object.entries(forms)) {
    for (const workers of form === "txt" ? [1, 4] : [2]) {
      const directory = join(folder, "ids", `${form}-${workers}`);
      await mkdir(directory, { recursive: true });
      const source = await openDocuments({ specs: [specOf(entry) as never], badRecordLimit: 0 });
      const { manifest } = await prepareCorpus({
        source,
        encoder: byteEncoder,
        directory,
        workers,
        tokensPerShard: 3_000_000,
      });
      expect(manifest.documents).toBe(documents.length);
      contents[`${form}-${workers}`] = manifest.content_sha256;
    }
  }
  expect(new Set(Object.values(contents)).size).toBe(1);

  const corpus = await openPrepared(join(folder, "ids", "parquet-2"), { memoryLimitBytes: 0 });
  const ids = new Uint8Array(corpus.length - documents.length);
  let at = 0;
  for (let start = 0; start < corpus.length; start += 1_000_003)
    for (const id of await corpus.read(start, Math.min(start + 1_000_003, corpus.length)))
      if (id < 256) ids[at++] = id;
  await corpus.close();
  expect(Buffer.from(ids).toString() === documents.join("")).toBe(true);
});

it("three hundred megabytes take no more memory than one hundred", async () => {
  const folder = await temporaryFolder();
  const line = (i: number) => JSON.stringify({ id: i, text: `${i} ${"lorem ipsum dolor ".repeat(50)}` });
  async function write(name: string, sizeBytes: number, lineOf: (i: number) => string, isPacked: boolean) {
    const file = createWriteStream(join(folder, name));
    const target = isPacked ? createGzip({ level: 1 }) : file;
    if (target !== file) target.pipe(file);
    for (let written = 0, i = 0; written < sizeBytes; i++) {
      const text = `${lineOf(i)}\n`;
      written += text.length;
      if (!target.write(text)) await once(target, "drain");
    }
    target.end();
    await finished(file);
    return join(folder, name);
  }
  const peakOf = (path: string): number => {
    const output = execFileSync(process.execPath, ["--import", "tsx", child, path, `${path}-ids`, "2"]);
    return JSON.parse(output.toString()).peakMb;
  };
  for (const [name, lineOf, isPacked] of [
    ["one-document.txt", (i: number) => `${i} ${"lorem ipsum dolor ".repeat(50)}`, false],
    ["lines.jsonl", line, false],
    ["lines.jsonl.gz", line, true],
  ] as const) {
    // Both are long enough for the heap to reach the size at which it stays; text that is kept would add 200 MB.
    const small = peakOf(await write(`small-${name}`, 100e6, lineOf, isPacked));
    const large = peakOf(await write(`large-${name}`, 300e6, lineOf, isPacked));
    expect(large - small, name).toBeLessThan(80);
    expect(large, name).toBeLessThan(600);
  }
});
