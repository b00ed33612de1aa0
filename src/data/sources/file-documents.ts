// Node only. The documents of a list of files, whatever their formats: the one source that everything else is built on.

import { createHash } from "node:crypto";
import { DataError } from "../../util/errors.js";
import type { DocumentSource } from "../documents.js";
import { type BadRecord, BadRecords } from "./bad-records.js";
import { unpackedName } from "./decompress.js";
import type { RawRecord, ReadOptions, SourceFormat } from "./format.js";
import { jsonlFormat } from "./jsonl-format.js";
import { parquetFormat } from "./parquet-format.js";
import { recordText, type TextChoice } from "./record-text.js";
import { defaultChunkBytes, type SourceFile } from "./source-file.js";
import { textFormat } from "./text-format.js";

const formats = { text: textFormat, jsonl: jsonlFormat, parquet: parquetFormat } as const;

export type FormatName = keyof typeof formats;

/** Files that are read in the same way. */
export interface FileGroup {
  readonly files: readonly SourceFile[];
  /** `auto`: what the end of each name says. */
  readonly format: FormatName | "auto";
  readonly text: TextChoice;
  /** Between two documents of a text file; null: a file is one document. */
  readonly separator: string | null;
}

export interface FileDocumentsOptions {
  readonly label: string;
  readonly groups: readonly FileGroup[];
  /** Bad records of one walk; one more ends it. */
  readonly badRecordLimit: number;
  readonly onBadRecord?: ((record: BadRecord) => void) | undefined;
  /** `records`: whoever reads chooses the text; only for formats with fields. Default `text`. */
  readonly yields?: "text" | "records" | undefined;
  readonly chunkBytes?: number | undefined;
}

type Document =
  | { readonly index: number; readonly text: string; readonly isContinued?: boolean }
  | { readonly index: number; readonly record: Record<string, unknown> };

/** What the name of a file says about its format: text, unless it says something else. */
export function formatOfName(name: string): FormatName {
  const [, ending = ""] = /\.([a-z0-9]+)$/i.exec(unpackedName(name)) ?? [];
  if (["jsonl", "ndjson"].includes(ending.toLowerCase())) return "jsonl";
  return ending.toLowerCase() === "parquet" ? "parquet" : "text";
}

interface Part {
  readonly file: SourceFile;
  readonly name: FormatName;
  readonly format: SourceFormat;
  readonly group: FileGroup;
  readonly read: ReadOptions;
  toText(record: Record<string, unknown>): { readonly text: string } | { readonly reason: string };
}

export class FileDocuments implements DocumentSource {
  readonly label: string;
  readonly #options: FileDocumentsOptions;
  readonly #parts: readonly Part[];
  #fingerprint: Promise<string> | undefined;

  /** Throws ConfigError for a template that is none, DataError for records of what has no fields. */
  constructor(options: FileDocumentsOptions) {
    this.label = options.label;
    this.#options = options;
    this.#parts = options.groups.flatMap((group) => partsOf(group, options));
  }

  fingerprint(): Promise<string> {
    this.#fingerprint ??= this.#hash();
    return this.#fingerprint;
  }

  async *documents(from = 0): AsyncGenerator<Document, void, undefined> {
    const bad = new BadRecords(this.#options.badRecordLimit);
    let first = 0;
    for (const part of this.#parts) {
      const skip = Math.max(0, from - first);
      const records = part.format.read(part.file, skip, part.read);
      let index = first + skip;
      try {
        for (;;) {
          const step = await records.next();
          if (step.done === true) {
            first += step.value;
            break;
          }
          const document = this.#toDocument(part, index, index - first, step.value, bad);
          if (document !== undefined) yield document;
          index++;
        }
      } finally {
        await records.return(0);
      }
    }
  }

  #toDocument(
    part: Part,
    index: number,
    number: number,
    record: RawRecord,
    bad: BadRecords,
  ): Document | undefined {
    if (record.kind === "empty") return undefined;
    if (record.kind === "text")
      return record.isContinued
        ? { index, text: record.text, isContinued: true }
        : { index, text: record.text };
    let reason = record.kind === "bad" ? record.reason : undefined;
    if (record.kind === "fields") {
      if (this.#options.yields === "records") return { index, record: record.fields };
      const chosen = part.toText(record.fields);
      if ("text" in chosen) return chosen.text === "" ? undefined : { index, text: chosen.text };
      reason = chosen.reason;
    }
    const found = { where: `${part.file.name}, ${part.format.unit} ${number + 1}`, reason: reason ?? "" };
    this.#options.onBadRecord?.(found);
    bad.add(found);
    return undefined;
  }

  async #hash(): Promise<string> {
    const hash = createHash("sha256");
    for (const { file, name, group } of this.#parts) {
      const { text, separator } = group;
      const choice = name === "text" ? { separator } : this.#options.yields === "records" ? {} : { text };
      hash.update(`${JSON.stringify([name, choice, await file.contentHash()])}\n`);
    }
    return hash.digest("hex");
  }
}

function partsOf(group: FileGroup, options: FileDocumentsOptions): Part[] {
  const { fields, textOf } = recordText(group.text);
  const isOfRecords = options.yields === "records";
  return group.files.map((file) => {
    const name = group.format === "auto" ? formatOfName(file.name) : group.format;
    if (isOfRecords && name === "text")
      throw new DataError(
        `${file.name} is plain text, but records with fields are needed: JSONL or Parquet.`,
        {
          code: "data.no_fields",
          details: { file: file.name },
        },
      );
    const read = {
      separator: group.separator,
      fields: isOfRecords ? null : fields,
      chunkBytes: options.chunkBytes ?? defaultChunkBytes,
    };
    return { file, name, format: formats[name], group, read, toText: textOf };
  });
}
