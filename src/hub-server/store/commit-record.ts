// A commit as it lies on the disk: one immutable JSON file that holds the whole list of files. Its name is the SHA-1
// of its bytes, so a damaged one is noticed when it is read. Not git: nothing here can be fetched with `git clone`.

import { createHash } from "node:crypto";
import { InternalError } from "../../util/errors.js";

export interface FileEntry {
  readonly sizeBytes: number;
  /** Of the content. */
  readonly sha256: string;
  /** What git would call it: of the content, or of the pointer for an LFS file. */
  readonly gitOid: string;
  readonly isLfs: boolean;
  /** The commit that brought this content; absent when it is the one that holds the entry. */
  readonly since?: string;
}

export interface CommitRecord {
  readonly parent: string | null;
  /** Number of ancestors. */
  readonly height: number;
  readonly title: string;
  readonly description: string;
  readonly author: string;
  /** By the server's clock, ISO 8601. */
  readonly date: string;
  readonly files: ReadonlyMap<string, FileEntry>;
}

export interface Commit extends CommitRecord {
  /** 40 hexadecimal digits. */
  readonly id: string;
}

type WireEntry = readonly [
  path: string,
  size: number,
  sha256: string,
  gitOid: string,
  isLfs: 0 | 1,
  since?: string,
];

/** Files are an array of arrays: as keys of an object, `__proto__` and numbers would not keep their place. */
export function encodeCommit(record: CommitRecord): { readonly id: string; readonly text: string } {
  const files = [...record.files].map(([path, entry]): WireEntry => {
    const wire = [path, entry.sizeBytes, entry.sha256, entry.gitOid, entry.isLfs ? 1 : 0] as const;
    return entry.since === undefined ? wire : [...wire, entry.since];
  });
  const text = `${JSON.stringify({ format: 1, ...record, files })}\n`;
  return { id: createHash("sha1").update(text).digest("hex"), text };
}

/** Throws InternalError if the bytes are not those that the name promises. */
export function decodeCommit(id: string, text: string): Commit {
  const actual = createHash("sha1").update(text).digest("hex");
  if (actual !== id) {
    throw new InternalError(`commit ${id} is damaged on the disk: its content has the hash ${actual}`, {
      code: "hub.damaged_commit",
      details: { id },
    });
  }
  const wire = JSON.parse(text) as Omit<CommitRecord, "files"> & {
    format: number;
    files: readonly WireEntry[];
  };
  if (wire.format !== 1) {
    throw new InternalError(`commit ${id} has format ${wire.format}; this version reads format 1`, {
      code: "hub.unknown_format",
    });
  }
  const files = new Map(
    wire.files.map(([path, sizeBytes, sha256, gitOid, isLfs, since]): [string, FileEntry] => {
      const entry = { sizeBytes, sha256, gitOid, isLfs: isLfs === 1 };
      return [path, since === undefined ? entry : { ...entry, since }];
    }),
  );
  const { parent, height, title, description, author, date } = wire;
  return { id, parent, height, title, description, author, date, files };
}
