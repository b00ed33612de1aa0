// From the bytes of a header to a checked table of tensors. Bytes in, table out: no reading of files here.
// Every rule of the format is enforced, so that later code may trust offsets, sizes and names.

import { type HeaderTable, readCompactHeader } from "./compact-header.js";
import { isSafetensorsDtype } from "./dtypes.js";
import { faultError, quote, SafetensorsError, truncatedError } from "./errors.js";
import { JsonFaultError, JsonScanner } from "./json-scanner.js";
import { checkEntry, type TensorEntry } from "./tensor-entry.js";

export type { TensorEntry } from "./tensor-entry.js";

/** Size of the length field before the header. */
export const LENGTH_FIELD_BYTES = 8;
/** Longest header that the format allows. */
export const MAX_HEADER_BYTES = 100_000_000;
/** Header entry that holds metadata instead of a tensor. */
export const METADATA_KEY = "__metadata__";

/** A checked header. Entries are in the order of their data. */
export interface SafetensorsHeader {
  readonly entries: ReadonlyMap<string, TensorEntry>;
  /** Empty when the file has none. */
  readonly metadata: ReadonlyMap<string, string>;
  /** Where the data part starts in the file. */
  readonly dataStart: number;
  readonly fileSizeBytes: number;
}

/**
 * Length of the header in bytes, from the first bytes of a file.
 * @throws SafetensorsError `truncated` or `header_too_large`.
 */
export function parseHeaderLength(firstBytes: Uint8Array, fileSizeBytes: number, file?: string): number {
  if (fileSizeBytes < LENGTH_FIELD_BYTES || firstBytes.byteLength < LENGTH_FIELD_BYTES) {
    throw truncatedError(fileSizeBytes, LENGTH_FIELD_BYTES, { file });
  }
  const view = new DataView(firstBytes.buffer, firstBytes.byteOffset, LENGTH_FIELD_BYTES);
  const length = view.getBigUint64(0, true);
  if (length > BigInt(MAX_HEADER_BYTES)) {
    const message = `header length ${length} is above the format's limit of ${MAX_HEADER_BYTES}: the file is damaged or is not a safetensors file`;
    throw new SafetensorsError("header_too_large", message, { file, offset: 0 });
  }
  const needBytes = LENGTH_FIELD_BYTES + Number(length);
  if (needBytes > fileSizeBytes) throw truncatedError(fileSizeBytes, needBytes, { file, offset: 0 });
  return Number(length);
}

/**
 * Parses and checks a header (the bytes after the length field).
 * @throws SafetensorsError for whatever breaks the format.
 */
export function parseHeader(
  headerBytes: Uint8Array,
  fileSizeBytes: number,
  file?: string,
): SafetensorsHeader {
  const text = decodeUtf8(headerBytes, LENGTH_FIELD_BYTES, file);
  const { entries, metadata } = readCompactHeader(text, METADATA_KEY, file) ?? scanHeader(text, file);
  const dataStart = LENGTH_FIELD_BYTES + headerBytes.byteLength;
  const sorted = sortByOffset(entries);
  checkLayout(sorted.values(), dataStart, fileSizeBytes, file);
  return { entries: sorted, metadata: metadata ?? new Map(), dataStart, fileSizeBytes };
}

function scanHeader(text: string, file: string | undefined): HeaderTable {
  const scanner = new JsonScanner(text);
  const entries = new Map<string, TensorEntry>();
  let metadata: ReadonlyMap<string, string> | undefined;
  let currentKey: string | undefined;
  try {
    if (scanner.peek() !== "{") scanner.fail("syntax", "the header must be a JSON object");
    scanner.readObject((key) => {
      currentKey = key;
      if (entries.has(key) || (key === METADATA_KEY && metadata !== undefined)) {
        scanner.fail("duplicate_key", `key ${quote(key)} appears twice in the header`);
      }
      if (key === METADATA_KEY) metadata = readMetadataMap(scanner, file);
      else entries.set(key, readEntry(scanner, key, file));
      currentKey = undefined;
    });
    scanner.expectEnd();
  } catch (error) {
    if (!(error instanceof JsonFaultError)) throw error;
    const tensor = currentKey === METADATA_KEY ? undefined : currentKey;
    throw faultError(error, text, LENGTH_FIELD_BYTES, { file, tensor });
  }
  return { entries, metadata };
}

/** Strict decoding: bytes that are not UTF-8 are refused, a byte order mark is left for the scanner to refuse. */
export function decodeUtf8(bytes: Uint8Array, offset: number, file: string | undefined): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch (cause) {
    throw new SafetensorsError("header_encoding", "the JSON text is not valid UTF-8", {
      file,
      offset,
      cause,
    });
  }
}

function readMetadataMap(scanner: JsonScanner, file: string | undefined): ReadonlyMap<string, string> {
  const metadata = new Map<string, string>();
  if (scanner.takeNull()) return metadata;
  if (scanner.peek() !== "{") {
    throw new SafetensorsError("invalid_metadata", `${METADATA_KEY} must be an object of strings`, { file });
  }
  scanner.readObject((key) => {
    if (metadata.has(key))
      scanner.fail("duplicate_key", `key ${quote(key)} appears twice in ${METADATA_KEY}`);
    if (scanner.peek() !== '"') {
      const message = `value of ${quote(key)} in ${METADATA_KEY} must be a string`;
      throw new SafetensorsError("invalid_metadata", message, { file });
    }
    metadata.set(key, scanner.readString());
  });
  return metadata;
}

function readEntry(scanner: JsonScanner, name: string, file: string | undefined): TensorEntry {
  const invalid = (message: string): never => {
    throw new SafetensorsError("invalid_entry", message, { file, tensor: name });
  };
  if (scanner.peek() !== "{") invalid("the entry must be an object with dtype, shape and data_offsets");
  let dtype: string | undefined;
  let shape: number[] | undefined;
  let offsets: number[] | undefined;
  let others: Set<string> | undefined;
  const refuseTwice = (field: string, isSeen: boolean) => {
    if (isSeen) scanner.fail("duplicate_key", `field ${quote(field)} appears twice`);
  };
  scanner.readObject((field) => {
    if (field === "dtype") {
      refuseTwice(field, dtype !== undefined);
      if (scanner.peek() !== '"') invalid("dtype must be a string");
      dtype = scanner.readString();
    } else if (field === "shape") {
      refuseTwice(field, shape !== undefined);
      shape = readCounts(scanner, "shape", "a dimension", invalid);
    } else if (field === "data_offsets") {
      refuseTwice(field, offsets !== undefined);
      offsets = readCounts(scanner, "data_offsets", "an offset", invalid);
    } else {
      others ??= new Set();
      refuseTwice(field, others.has(field));
      others.add(field);
      scanner.skipValue();
    }
  });
  if (dtype === undefined) return invalid("dtype is missing");
  if (shape === undefined) return invalid("shape is missing");
  if (offsets === undefined) return invalid("data_offsets is missing");
  if (!isSafetensorsDtype(dtype)) {
    throw new SafetensorsError("unknown_dtype", `unknown dtype ${quote(dtype)}`, { file, tensor: name });
  }
  return checkEntry(name, dtype, shape, offsets, file);
}

function readCounts(
  scanner: JsonScanner,
  field: string,
  item: string,
  invalid: (message: string) => never,
): number[] {
  if (scanner.peek() !== "[") invalid(`${field} must be an array of integers`);
  const counts: number[] = [];
  scanner.readArray(() => {
    counts.push(scanner.readCount(item));
  });
  return counts;
}

/** By first byte; an empty tensor sorts before the tensor that starts at the same byte. */
function sortByOffset(entries: ReadonlyMap<string, TensorEntry>): ReadonlyMap<string, TensorEntry> {
  const compare = (a: TensorEntry, b: TensorEntry) =>
    a.dataOffsets[0] - b.dataOffsets[0] || a.dataOffsets[1] - b.dataOffsets[1];
  const sorted = [...entries.values()];
  // Most writers keep the order of the data in the header: then there is no second map to build.
  if (sorted.every((entry, i) => i === 0 || compare(sorted[i - 1]!, entry) <= 0)) return entries;
  return new Map(sorted.sort(compare).map((entry) => [entry.name, entry]));
}

function checkLayout(
  sorted: Iterable<TensorEntry>,
  dataStart: number,
  fileSizeBytes: number,
  file: string | undefined,
): void {
  let expected = 0;
  for (const { name, dataOffsets } of sorted) {
    const [begin, end] = dataOffsets;
    if (begin !== expected) {
      const isHole = begin > expected;
      const message = isHole
        ? `data starts at ${begin}, which leaves bytes ${expected} to ${begin} to no tensor`
        : `data starts at ${begin}, inside the tensor before it, which ends at ${expected}`;
      const fields = { file, tensor: name, offset: dataStart + Math.min(begin, expected) };
      throw new SafetensorsError(isHole ? "hole" : "overlap", message, fields);
    }
    expected = end;
  }
  const needBytes = dataStart + expected;
  if (needBytes > fileSizeBytes)
    throw truncatedError(fileSizeBytes, needBytes, { file, offset: fileSizeBytes });
  if (needBytes < fileSizeBytes) {
    const message = `${fileSizeBytes - needBytes} bytes after the last tensor belong to no tensor`;
    throw new SafetensorsError("hole", message, { file, offset: needBytes });
  }
}
