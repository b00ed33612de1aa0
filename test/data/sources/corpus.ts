// One small corpus in every form that sources can have, and reading it back as ids.

import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { ByteTokenizer } from "../../../src/data/byte-tokenizer.js";
import type { DocumentSource } from "../../../src/data/documents.js";
import type { DataSourceOptions } from "../../../src/data/options.js";
import { type Encoder, encoderOf } from "../../../src/data/prepared/encoder.js";
import { openCorpora } from "../../../src/data/prepared/open-corpora.js";
import { openDocuments } from "../../../src/data/sources/open-documents.js";
import { seedWords, threefry2x32 } from "../../../src/util/rng.js";

const words = 'the of and to a in is it you naïve café Zürich 早く 🙂 x=1 {y} "quoted" \\n\ttab'.split(" ");

/** Documents of some sentences each; the same for equal seeds. None holds the separator. */
export function documentsOf(count: number, seed = 7, wordsEach = 40): string[] {
  const key = seedWords(seed);
  return Array.from({ length: count }, (_, document) => {
    const length = 1 + (threefry2x32(key, document, 0)[0] % (2 * wordsEach));
    const chosen = Array.from(
      { length },
      (_, word) => words[threefry2x32(key, document, word + 1)[0] % words.length]!,
    );
    return `${document}: ${chosen.join(" ")}\n`;
  });
}

export const separator = "\n\u001e\n";

/** Bytes of 128 and more are ids too; 256 ends a document. */
export const byteEncoder: Encoder = encoderOf(new ByteTokenizer(), 256);

export interface CorpusFiles {
  readonly folder: string;
  /** Entry of `data.sources` by the name of the form. */
  readonly entries: Readonly<Record<string, DataSourceOptions>>;
}

/** Everything that needs no other package to write. */
export async function writePlainForms(folder: string, documents: readonly string[]): Promise<CorpusFiles> {
  await mkdir(folder, { recursive: true });
  const text = documents.join(separator);
  const lines = documents.map((content, i) => JSON.stringify({ id: i, meta: { body: content } }));
  await writeFile(join(folder, "corpus.txt"), text);
  await writeFile(join(folder, "corpus.txt.gz"), gzipSync(text, { level: 1 }));
  await writeFile(join(folder, "corpus.jsonl"), `${lines.join("\n")}\n`);
  await writeFile(join(folder, "corpus.jsonl.gz"), gzipSync(`${lines.join("\r\n\r\n")}`, { level: 1 }));
  // Several files, whose names are not in the order that a folder lists them.
  const parts = join(folder, "parts", "a");
  await mkdir(parts, { recursive: true });
  const size = Math.ceil(documents.length / 12);
  for (let part = 0; part * size < documents.length; part++) {
    const own = documents.slice(part * size, (part + 1) * size);
    await writeFile(join(parts, `part-${String(part).padStart(2, "0")}.txt`), own.join(separator));
  }
  const entry = (name: string, more: Partial<DataSourceOptions> = {}): DataSourceOptions => ({
    paths: [join(folder, name)],
    ...more,
  });
  return {
    folder,
    entries: {
      txt: entry("corpus.txt", { separator }),
      gz: entry("corpus.txt.gz", { separator }),
      jsonl: entry("corpus.jsonl", { textField: "meta.body" }),
      "jsonl.gz": entry("corpus.jsonl.gz", { template: "{meta.body}" }),
      parts: entry("parts/**/*.txt", { separator }),
    },
  };
}

export function specOf(entry: DataSourceOptions) {
  return {
    paths: entry.paths,
    format: entry.format ?? "auto",
    textField: entry.textField ?? "text",
    template: entry.template ?? null,
    separator: entry.separator ?? null,
    weight: entry.weight ?? null,
  } as const;
}

export async function textsOf(source: DocumentSource, from = 0): Promise<string[]> {
  const texts: string[] = [];
  for await (const document of source.documents(from)) texts.push("text" in document ? document.text : "");
  return texts;
}

export async function documentsOfEntry(
  entry: DataSourceOptions,
  options: { readonly chunkBytes?: number; readonly badRecordLimit?: number } = {},
): Promise<string[]> {
  const { format, ...spec } = specOf(entry);
  if (format === "prepared") throw new Error("prepared data has no documents");
  return textsOf(await openDocuments({ specs: [{ ...spec, format }], badRecordLimit: 0, ...options }));
}

export interface TokenStream {
  readonly ids: number[];
  readonly documentStarts: number[];
  readonly description: Record<string, unknown>;
}

export async function tokensOf(
  entry: DataSourceOptions,
  cacheDirectory: string,
  encoder: Encoder = byteEncoder,
): Promise<TokenStream> {
  const [opened, ...others] = await openCorpora({
    specs: [specOf(entry)],
    encoder,
    cacheDirectory,
    badRecordLimit: 0,
    maxTokens: null,
    workers: 1,
  });
  if (opened === undefined || others.length > 0) throw new Error("one corpus was expected");
  const { corpus } = opened;
  const ids = [...(await corpus.read(0, corpus.length))];
  await corpus.close();
  return { ids, documentStarts: [...corpus.documentStarts], description: corpus.describe() };
}
