// The commit records of a folder repository: what one commit changed, and now and then the whole tree, so that older
// records may go. A revision is the record's number and a part of its hash, which makes the records a chain.

import { parseForeignJson } from "../../util/json-depth.js";
import { compareCodePoints } from "../wire/order.js";
import { TransportError } from "./errors.js";
import { checkPath } from "./paths.js";
import { sha256Hex } from "./sha256.js";

/** A file of a tree: its blob's name, which begins with its SHA-256, and its size. */
export interface FolderEntry {
  readonly blob: string;
  readonly sizeBytes: number;
}

export type FolderTree = ReadonlyMap<string, FolderEntry>;

export interface FolderRecord {
  /** From 1, which is the empty commit that makes the repository. */
  readonly number: number;
  /** Undefined for the first. */
  readonly parent: string | undefined;
  /** Random: two writers never make the same record. */
  readonly nonce: string;
  readonly message: string;
  readonly puts: FolderTree;
  readonly deletes: readonly string[];
  /** All files after this commit; only in records whose number says so. */
  readonly tree: FolderTree | undefined;
}

/** How many commits follow each other without a whole tree. */
export const TREE_EVERY = 64;
const NUMBER_DIGITS = 12;
const HASH_DIGITS = 28;
const BLOB_NAME = /^[0-9a-f]{64}\.[0-9a-f]{16}$/;
const HASH_CHARS = 64;

export const hasTree = (number: number): boolean => number === 1 || number % TREE_EVERY === 0;

export const recordName = (number: number): string => `${hexNumber(number)}.json`;

/** The number in a record's file name, or undefined if it is no record's. */
export function numberOfName(name: string): number | undefined {
  const digits = /^([0-9a-f]{12})\.json$/.exec(name)?.[1];
  return digits === undefined ? undefined : Number.parseInt(digits, 16);
}

/** The number in a revision, or undefined for what is none. */
export function numberOfRevision(revision: string): number | undefined {
  const digits = /^([0-9a-f]{12})[0-9a-f]{28}$/.exec(revision)?.[1];
  return digits === undefined ? undefined : Number.parseInt(digits, 16);
}

export function revisionOf(number: number, bytes: Uint8Array): string {
  return `${hexNumber(number)}${sha256Hex(bytes).slice(0, HASH_DIGITS)}`;
}

/** The id that the contract speaks of. */
export const contentIdOf = ({ blob }: FolderEntry): string => blob.slice(0, HASH_CHARS);

export function encodeRecord(record: FolderRecord): Uint8Array {
  const { number, parent, nonce, message, puts, deletes, tree } = record;
  const text = JSON.stringify({
    number,
    parent: parent ?? null,
    nonce,
    message,
    puts: toPlain(puts),
    deletes,
    ...(tree === undefined ? {} : { tree: toPlain(tree) }),
  });
  return new TextEncoder().encode(`${text}\n`);
}

/** Throws TransportError `corrupt`; `what` names the file. */
export function parseRecord(bytes: Uint8Array, number: number, what: string): FolderRecord {
  try {
    const raw = parseForeignJson(new TextDecoder("utf-8", { fatal: true }).decode(bytes)) as Record<
      string,
      unknown
    >;
    const { parent, nonce, message, deletes } = raw;
    const isWhole =
      raw.number === number &&
      (parent === null ? number === 1 : numberOfRevision(String(parent)) === number - 1) &&
      typeof nonce === "string" &&
      typeof message === "string" &&
      Array.isArray(deletes) &&
      (raw.tree !== undefined) === hasTree(number);
    if (!isWhole) throw new Error("fields are missing or do not fit together");
    const paths = deletes.map(String);
    paths.forEach(checkPath);
    return {
      number,
      parent: parent === null ? undefined : String(parent),
      nonce,
      message,
      puts: fromPlain(raw.puts),
      deletes: paths,
      tree: raw.tree === undefined ? undefined : fromPlain(raw.tree),
    };
  } catch (error) {
    const reason = error instanceof Error ? error.message : "unknown failure";
    throw new TransportError(
      "corrupt",
      `${what} is no commit record (${reason}); restore the folder from a copy or name a new one`,
      { cause: error },
    );
  }
}

/** The tree after a commit on `tree`. */
export function applyRecord(
  tree: FolderTree,
  { puts, deletes }: Pick<FolderRecord, "puts" | "deletes">,
): FolderTree {
  const next = new Map(tree);
  for (const path of deletes) next.delete(path);
  for (const [path, entry] of puts) next.set(path, entry);
  return next;
}

function hexNumber(number: number): string {
  return number.toString(16).padStart(NUMBER_DIGITS, "0");
}

function toPlain(tree: FolderTree): readonly (readonly [string, string, number])[] {
  return [...tree]
    .sort(([a], [b]) => compareCodePoints(a, b))
    .map(([path, { blob, sizeBytes }]) => [path, blob, sizeBytes]);
}

function fromPlain(value: unknown): FolderTree {
  if (!Array.isArray(value)) throw new Error("a list of files is missing");
  return new Map(
    value.map((item: unknown) => {
      const [path, blob, sizeBytes] = Array.isArray(item) ? (item as unknown[]) : [];
      if (typeof path !== "string" || typeof blob !== "string" || !BLOB_NAME.test(blob))
        throw new Error("a file lacks its path or blob");
      if (typeof sizeBytes !== "number" || !Number.isSafeInteger(sizeBytes) || sizeBytes < 0)
        throw new Error(`${path} has no size`);
      checkPath(path);
      return [path, { blob, sizeBytes }] as const;
    }),
  );
}
