// What a file format has to do: say record by record what a file holds. It knows nothing of other files, of limits for
// bad records, or of how a text is made of a record.

import type { SourceFile } from "./source-file.js";

export type RawRecord =
  /** A text, or a piece of one that goes on in the next record. */
  | { readonly kind: "text"; readonly text: string; readonly isContinued: boolean }
  /** Named values. */
  | { readonly kind: "fields"; readonly fields: Record<string, unknown> }
  /** Nothing that anybody would miss, such as an empty line. It has a number all the same. */
  | { readonly kind: "empty" }
  /** What cannot be used. */
  | { readonly kind: "bad"; readonly reason: string };

/** What else is needed to read a file. */
export interface ReadOptions {
  /** What lies between two documents of a text file; null: a file is one document. */
  readonly separator: string | null;
  /** What a text is made of; other columns are not read. Null: all of them. */
  readonly fields: readonly string[] | null;
  readonly chunkBytes: number;
}

export interface SourceFormat {
  /** What a record of this format is called in messages: `line`, `row`. */
  readonly unit: string;
  /**
   * The records of a file from number `skip` on, and at the end how many the file has, skipped ones included. Ending
   * the loop early closes the file. Throws DataError for a file that cannot be read at all.
   */
  read(file: SourceFile, skip: number, options: ReadOptions): AsyncGenerator<RawRecord, number, undefined>;
}
