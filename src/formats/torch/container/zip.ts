// The records of a zip container: its central directory, read by ranges, and where each record's bytes are. Stored
// records only, as PyTorch writes them, zip64 included. Not a general zip reader: whatever is ambiguous or
// compressed is refused. Check sums are not compared; PyTorch can be told to leave them out.
// Source: PKWARE's APPNOTE 6.3.10, sections 4.3 and 4.5.3.

import type { ByteSource } from "../../safetensors/source.js";
import { quote, type TorchErrorFields, TorchFileError, type TorchProblem } from "../errors.js";
import type { TorchLimits } from "../limits.js";
import { dataView, readRange } from "../source.js";

export interface ZipRecord {
  readonly name: string;
  readonly sizeBytes: number;
  /** 0: stored. */
  readonly method: number;
  readonly flags: number;
  /** Where its own header starts. */
  readonly headerOffset: number;
  /** No byte of it lies here or beyond. */
  readonly limitOffset: number;
}

const SIGNATURE = {
  local: 0x04034b50,
  central: 0x02014b50,
  end: 0x06054b50,
  end64: 0x06064b50,
  locator: 0x07064b50,
};
const LOCAL_BYTES = 30;
const CENTRAL_BYTES = 46;
const END_BYTES = 22;
const LOCATOR_BYTES = 20;
const END64_BYTES = 56;
const MAX_COMMENT_BYTES = 0xffff;
const MAX_DIRECTORY_BYTES = 2 ** 27;
/** Stands in a field of 16 or 32 bits whose value is in the zip64 part. */
const ELSEWHERE_16 = 0xffff;
const ELSEWHERE_32 = 0xffffffff;
const ENCRYPTED = 1;

const strictUtf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * Reads the directory of the records, by name.
 * @throws TorchFileError `zip`, `truncated`, `duplicate_record`, `encoding` or `limit`.
 */
export async function readZipDirectory(
  source: ByteSource,
  limits: TorchLimits,
): Promise<ReadonlyMap<string, ZipRecord>> {
  const { count, offset, sizeBytes } = await findDirectory(source);
  if (count > limits.maxRecords)
    throw zipError(
      source,
      "limit",
      `the zip container has ${count} records; at most ${limits.maxRecords} are read`,
    );
  if (count * CENTRAL_BYTES > sizeBytes)
    throw zipError(
      source,
      "zip",
      `${count} records do not fit into a directory of ${sizeBytes} bytes`,
      offset,
    );
  if (sizeBytes > MAX_DIRECTORY_BYTES)
    throw zipError(source, "limit", `the directory of the zip container has ${sizeBytes} bytes`, offset);
  return checkRecords(
    source,
    readRecords(source, await readRange(source, offset, sizeBytes), offset, count),
    offset,
  );
}

/** Where the bytes of a stored record begin; its own header is checked against the directory. */
export async function locateRecord(source: ByteSource, record: ZipRecord): Promise<number> {
  const { name, headerOffset, sizeBytes } = record;
  const problem = describeProblem(record);
  if (problem !== undefined)
    throw zipError(source, "compressed", `record ${quote(name)} ${problem}`, headerOffset);
  const header = dataView(await readRange(source, headerOffset, LOCAL_BYTES));
  if (header.getUint32(0, true) !== SIGNATURE.local)
    throw zipError(
      source,
      "zip",
      `record ${quote(name)} does not start where the directory says`,
      headerOffset,
    );
  const nameBytes = header.getUint16(26, true);
  const localName = await readRange(source, headerOffset + LOCAL_BYTES, nameBytes);
  if (header.getUint16(8, true) !== record.method || new TextDecoder().decode(localName) !== name)
    throw zipError(
      source,
      "zip",
      `record ${quote(name)} has another name or form than in the directory`,
      headerOffset,
    );
  const start = headerOffset + LOCAL_BYTES + nameBytes + header.getUint16(28, true);
  if (start + sizeBytes > record.limitOffset)
    throw zipError(
      source,
      "zip",
      `record ${quote(name)} of ${sizeBytes} bytes reaches into what follows it`,
      start,
    );
  return start;
}

function describeProblem({ method, flags }: ZipRecord): string | undefined {
  if ((flags & ENCRYPTED) !== 0) return "is encrypted";
  if (method === 0) return undefined;
  return `is compressed (method ${method}), which PyTorch never does; unpack it and zip it again without compression`;
}

interface Directory {
  readonly count: number;
  readonly offset: number;
  readonly sizeBytes: number;
}

async function findDirectory(source: ByteSource): Promise<Directory> {
  const tailBytes = Math.min(source.sizeBytes, END_BYTES + MAX_COMMENT_BYTES);
  const tailOffset = source.sizeBytes - tailBytes;
  const tail = dataView(await readRange(source, tailOffset, tailBytes));
  for (let at = tailBytes - END_BYTES; at >= 0; at--) {
    const isEnd =
      tail.getUint32(at, true) === SIGNATURE.end &&
      at + END_BYTES + tail.getUint16(at + 20, true) === tailBytes;
    if (!isEnd) continue;
    const offset = tailOffset + at;
    if (
      tail.getUint16(at + 4, true) % ELSEWHERE_16 !== 0 ||
      tail.getUint16(at + 6, true) % ELSEWHERE_16 !== 0
    )
      throw zipError(source, "zip", "the zip container is split over several files", offset);
    const directory = {
      count: tail.getUint16(at + 10, true),
      sizeBytes: tail.getUint32(at + 12, true),
      offset: tail.getUint32(at + 16, true),
    };
    const is64 =
      directory.count === ELSEWHERE_16 ||
      directory.sizeBytes === ELSEWHERE_32 ||
      directory.offset === ELSEWHERE_32;
    const [found, end] = is64 ? await readEnd64(source, offset) : [directory, offset];
    if (found.offset + found.sizeBytes > end)
      throw zipError(
        source,
        "zip",
        "the directory of the zip container does not lie before its end record",
        offset,
      );
    return found;
  }
  throw zipError(
    source,
    "truncated",
    `file is truncated: it starts like a zip container, but its ${source.sizeBytes} bytes have no end record`,
  );
}

async function readEnd64(source: ByteSource, endOffset: number): Promise<[Directory, number]> {
  const locatorOffset = endOffset - LOCATOR_BYTES;
  if (locatorOffset < 0) throw zipError(source, "zip", "the zip64 part is missing", endOffset);
  const locator = dataView(await readRange(source, locatorOffset, LOCATOR_BYTES));
  const offset = uint64(source, locator, 8, locatorOffset);
  if (locator.getUint32(0, true) !== SIGNATURE.locator || offset + END64_BYTES > locatorOffset)
    throw zipError(source, "zip", "the zip64 part is missing or misplaced", locatorOffset);
  const end = dataView(await readRange(source, offset, END64_BYTES));
  if (end.getUint32(0, true) !== SIGNATURE.end64)
    throw zipError(source, "zip", "the zip64 end record is missing", offset);
  const directory = {
    count: uint64(source, end, 32, offset),
    sizeBytes: uint64(source, end, 40, offset),
    offset: uint64(source, end, 48, offset),
  };
  return [directory, offset];
}

type DirectoryEntry = Omit<ZipRecord, "limitOffset">;

function* readRecords(
  source: ByteSource,
  bytes: Uint8Array,
  directoryOffset: number,
  count: number,
): Generator<DirectoryEntry> {
  const view = dataView(bytes);
  let at = 0;
  for (let i = 0; i < count; i++) {
    const offset = directoryOffset + at;
    const isRecord = at + CENTRAL_BYTES <= bytes.byteLength && view.getUint32(at, true) === SIGNATURE.central;
    if (!isRecord) throw zipError(source, "zip", `entry ${i} of the zip directory is damaged`, offset);
    const nameEnd = at + CENTRAL_BYTES + view.getUint16(at + 28, true);
    const extraEnd = nameEnd + view.getUint16(at + 30, true);
    const end = extraEnd + view.getUint16(at + 32, true);
    if (end > bytes.byteLength)
      throw zipError(source, "zip", `entry ${i} of the zip directory is longer than the directory`, offset);
    const name = decodeName(source, bytes.subarray(at + CENTRAL_BYTES, nameEnd), offset);
    yield {
      name,
      flags: view.getUint16(at + 8, true),
      method: view.getUint16(at + 10, true),
      ...readPlace(source, view, at, [nameEnd, extraEnd], offset),
    };
    at = end;
  }
}

/** Size and place of a record; the zip64 part has those that do not fit into 32 bits, in this order. */
function readPlace(
  source: ByteSource,
  view: DataView,
  at: number,
  [extraStart, extraEnd]: readonly [number, number],
  offset: number,
): { sizeBytes: number; headerOffset: number } {
  const packedBytes = view.getUint32(at + 20, true);
  let sizeBytes = view.getUint32(at + 24, true);
  let headerOffset = view.getUint32(at + 42, true);
  for (let part = extraStart; part + 4 <= extraEnd; ) {
    const length = view.getUint16(part + 2, true);
    const end = part + 4 + length;
    if (end > extraEnd) break;
    if (view.getUint16(part, true) === 1) {
      let next = part + 4;
      const take = () => {
        if (next + 8 > end) throw zipError(source, "zip", "the zip64 part of an entry is too short", offset);
        next += 8;
        return uint64(source, view, next - 8, offset);
      };
      if (sizeBytes === ELSEWHERE_32) sizeBytes = take();
      if (packedBytes === ELSEWHERE_32) take();
      if (headerOffset === ELSEWHERE_32) headerOffset = take();
    }
    part = end;
  }
  return { sizeBytes, headerOffset };
}

/** Names are unique and no two records share bytes: else one file could be two, or far more than its size. */
function checkRecords(
  source: ByteSource,
  entries: Iterable<DirectoryEntry>,
  directoryOffset: number,
): ReadonlyMap<string, ZipRecord> {
  const sorted = [...entries].sort((a, b) => a.headerOffset - b.headerOffset);
  const records = new Map<string, ZipRecord>();
  for (const [i, entry] of sorted.entries()) {
    const { name, headerOffset } = entry;
    if (records.has(name))
      throw zipError(
        source,
        "duplicate_record",
        `the zip container has two records named ${quote(name)}`,
        headerOffset,
      );
    const limitOffset = sorted[i + 1]?.headerOffset ?? directoryOffset;
    // Compressed sizes do not matter: a record that is compressed is never read.
    const end = headerOffset + LOCAL_BYTES + (entry.method === 0 ? entry.sizeBytes : 0);
    if (end > limitOffset) {
      const next = sorted[i + 1] === undefined ? "the directory" : `record ${quote(sorted[i + 1]!.name)}`;
      throw zipError(
        source,
        "duplicate_record",
        `record ${quote(name)} of ${entry.sizeBytes} bytes shares bytes with ${next}`,
        headerOffset,
      );
    }
    records.set(name, { ...entry, limitOffset });
  }
  return records;
}

function decodeName(source: ByteSource, bytes: Uint8Array, offset: number): string {
  try {
    return strictUtf8.decode(bytes);
  } catch (cause) {
    const message = "the name of a record in the zip container is not valid UTF-8";
    throw new TorchFileError("encoding", message, { file: source.name, offset, cause });
  }
}

function uint64(source: ByteSource, view: DataView, at: number, offset: number): number {
  const value = view.getBigUint64(at, true);
  if (value <= BigInt(Number.MAX_SAFE_INTEGER)) return Number(value);
  throw zipError(source, "zip", `the zip container claims ${value} bytes or records`, offset);
}

function zipError(
  source: ByteSource,
  problem: TorchProblem,
  message: string,
  offset?: number,
): TorchFileError {
  const fields: TorchErrorFields = { file: source.name, offset };
  return new TorchFileError(problem, message, fields);
}
