// The formats that other packages read: Parquet and zstd.

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parquetWriteBuffer } from "hyparquet-writer";
import { describe, expect, it } from "vitest";
import { localFile } from "../../../src/data/sources/local-file.js";
import { openDocuments } from "../../../src/data/sources/open-documents.js";
import { parquetFormat } from "../../../src/data/sources/parquet-format.js";
import type { SourceFile } from "../../../src/data/sources/source-file.js";
import { loadZstd, unzstd } from "../../../src/data/sources/zstd.js";
import { zstdFrames } from "../../../src/data/sources/zstd-frames.js";
import { DataError } from "../../../src/util/errors.js";
import { temporaryFolder } from "../helpers.js";
import { documentsOf, documentsOfEntry, separator, specOf, textsOf, tokensOf } from "./corpus.js";

const { compress } = await loadZstd();

function zstd(text: string): Uint8Array {
  return compress(Buffer.from(text), 3);
}

async function* chunked(bytes: Uint8Array, size: number) {
  for (let start = 0; start < bytes.length; start += size) yield bytes.subarray(start, start + size);
}

async function unpacked(bytes: Uint8Array, size = 1000): Promise<string> {
  const parts: Uint8Array[] = [];
  // Without a stream of Node's own, as on Node 20.
  for await (const part of unzstd(chunked(bytes, size), "x.zst", {})) parts.push(part.slice());
  return Buffer.concat(parts).toString();
}

/** A frame without the size of its content, of one raw block and one that repeats a byte. */
const handmade = Uint8Array.of(
  ...[0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58],
  ...[(3 << 3) & 0xff, 0, 0, 0x61, 0x62, 0x63],
  ...[(4 << 3) | (1 << 1) | 1, 0, 0, 0x7a],
);

describe("zstd", () => {
  it("is unpacked frame by frame, in chunks of any size", async () => {
    const text = documentsOf(500).join("");
    const skippable = Uint8Array.of(0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 9, 9, 9);
    const bytes = Buffer.concat([zstd(text), skippable, handmade, zstd("end")]);
    for (const size of [1, 7, 1000, 1e6])
      expect((await unpacked(bytes, size)) === `${text}abczzzzend`).toBe(true);
  });

  it("is cut into frames with the size of their content, or a bound of it", async () => {
    const sizes = [];
    for await (const { bytes, contentBytes } of zstdFrames(
      chunked(Buffer.concat([zstd("x".repeat(5000)), handmade]), 100),
      "x",
      1e6,
    ))
      sizes.push([bytes.length > 10, contentBytes]);
    expect(sizes).toEqual([
      [true, 5000],
      [true, 7],
    ]);
  });

  it("that is damaged is an error that names the file", async () => {
    const bytes = zstd(documentsOf(50).join(""));
    await expect(unpacked(bytes.subarray(0, bytes.length - 5))).rejects.toThrow(
      /x\.zst cannot be decompressed: it ends/,
    );
    await expect(unpacked(encode("plain text"))).rejects.toThrow(/does not begin like one/);
    await expect(unpacked(encode("plain text"))).rejects.toBeInstanceOf(DataError);
    const frames = zstdFrames(chunked(zstd("x".repeat(5000)), 100), "x.zst", 4999);
    await expect(frames.next()).rejects.toThrow(/one zstd frame of more than 4999 bytes/);
  });
});

const encode = (text: string) => new TextEncoder().encode(text);

async function writeParquet(path: string, documents: readonly string[], rowGroupSize = 10): Promise<void> {
  const buffer = parquetWriteBuffer({
    columnData: [
      { name: "id", data: documents.map((_, i) => i), type: "INT32" },
      { name: "text", data: [...documents], type: "STRING" },
      { name: "note", data: documents.map((_, i) => `note ${i} ${"x".repeat(3000)}${i}`), type: "STRING" },
    ],
    rowGroupSize,
    codec: "UNCOMPRESSED",
  });
  await writeFile(path, new Uint8Array(buffer));
}

describe("Parquet", () => {
  it("gives the rows of a column, from any row on", async () => {
    const documents = documentsOf(37);
    const path = join(await temporaryFolder(), "rows.parquet");
    await writeParquet(path, documents);
    expect(await documentsOfEntry({ paths: [path] })).toEqual(documents);
    expect(await documentsOfEntry({ paths: [path], template: "{id}: {text}" })).toEqual(
      documents.map((text, i) => `${i}: ${text}`),
    );
    const source = await openDocuments({ specs: [specOf({ paths: [path] }) as never], badRecordLimit: 0 });
    for (const from of [0, 9, 10, 25, 37]) expect(await textsOf(source, from)).toEqual(documents.slice(from));
  });

  it("is read by range: other columns stay where they are", async () => {
    const path = join(await temporaryFolder(), "rows.parquet");
    await writeParquet(path, documentsOf(400), 100);
    const file = await localFile(path);
    let bytesRead = 0;
    const counted: SourceFile = {
      ...file,
      open: async () => {
        const open = await file.open();
        return {
          ...open,
          read: (start, end) => {
            bytesRead += end - start;
            return open.read(start, end);
          },
        };
      },
    };
    const options = { separator: null, fields: ["text"], chunkBytes: 1000 };
    let rows = 0;
    for await (const record of parquetFormat.read(counted, 0, options))
      rows += record.kind === "fields" ? 1 : 0;
    expect(rows).toBe(400);
    expect(file.sizeBytes).toBeGreaterThan(600_000);
    // The end of the file with its index, and one column.
    expect(bytesRead).toBeLessThan(file.sizeBytes);
  });

  it("says which columns there are, and when a file is none", async () => {
    const folder = await temporaryFolder();
    const path = join(folder, "rows.parquet");
    await writeParquet(path, ["a"]);
    await expect(documentsOfEntry({ paths: [path], textField: "body" })).rejects.toThrow(
      /has no column "body"; it has "id", "text", "note"/,
    );
    const other = join(folder, "other.parquet");
    await writeFile(other, "not parquet at all, but long enough");
    await expect(documentsOfEntry({ paths: [other] })).rejects.toThrow(
      /other\.parquet cannot be read as Parquet/,
    );
  });
});

it("zstd and Parquet give the same ids as plain text", async () => {
  const folder = await temporaryFolder();
  const documents = documentsOf(60);
  const path = (name: string) => join(folder, name);
  await writeFile(path("corpus.txt"), documents.join(separator));
  await writeFile(path("corpus.txt.zst"), zstd(documents.join(separator)));
  await writeFile(
    path("corpus.jsonl.zst"),
    zstd(documents.map((text) => JSON.stringify({ text })).join("\n")),
  );
  await writeParquet(path("corpus.parquet"), documents);
  const entry = (name: string) => ({ paths: [path(name)], separator });
  const expected = await tokensOf(entry("corpus.txt"), path("cache"));
  for (const name of ["corpus.txt.zst", "corpus.jsonl.zst", "corpus.parquet"])
    expect(await tokensOf(entry(name), path("cache"))).toEqual(expected);
});
