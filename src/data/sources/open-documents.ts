// Node only. From what a configuration names to documents: paths and patterns of this machine, and addresses.

import { DataError } from "../../util/errors.js";
import type { BadRecord } from "./bad-records.js";
import { FileDocuments, type FormatName } from "./file-documents.js";
import { findFiles } from "./find-files.js";
import type { RemoteFiles, SourceFile } from "./source-file.js";

/** One entry of `data.sources`. */
export interface SourceSpec {
  /** Paths, patterns or addresses, in this order. */
  readonly paths: readonly string[];
  readonly format: FormatName | "auto";
  readonly textField: string;
  readonly template: string | null;
  readonly separator: string | null;
}

export interface OpenDocumentsOptions {
  readonly specs: readonly SourceSpec[];
  readonly badRecordLimit: number;
  readonly onBadRecord?: ((record: BadRecord) => void) | undefined;
  readonly remote?: RemoteFiles | undefined;
  readonly yields?: "text" | "records" | undefined;
  readonly chunkBytes?: number | undefined;
}

/**
 * The documents of all specs, one after the other. A file that several patterns of one spec match is read once.
 * @throws DataError for what does not exist
 */
export async function openDocuments(options: OpenDocumentsOptions): Promise<FileDocuments> {
  const { specs, remote, ...rest } = options;
  const groups = [];
  for (const { paths, format, textField, template, separator } of specs) {
    const files = new Map<string, SourceFile>();
    for (const path of paths)
      for (const file of await filesOf(path, remote)) if (!files.has(file.name)) files.set(file.name, file);
    groups.push({ files: [...files.values()], format, text: { field: textField, template }, separator });
  }
  return new FileDocuments({ ...rest, label: specs.flatMap(({ paths }) => paths).join(", "), groups });
}

async function filesOf(path: string, remote: RemoteFiles | undefined): Promise<readonly SourceFile[]> {
  if (remote?.handles(path) === true) return remote.list(path);
  const scheme = /^([a-z][a-z0-9+.-]+):\/\//i.exec(path)?.[1];
  if (scheme !== undefined)
    throw new DataError(
      `"${path}" cannot be read: ${scheme}:// is not known here. Name a file, a pattern, or a dataset of a hub as ` +
        "hf://datasets/org/name.",
      { code: "data.unknown_address", details: { path } },
    );
  return findFiles(path);
}
