// Every byte of many tensors in a bounded amount of memory: pieces in order, a few reads ahead of the consumer, into
// buffers that are used again. The way to look at, convert or copy files of any size.

import type { TensorEntry } from "./header.js";
import type { TensorReader } from "./reader.js";
import type { TensorStream } from "./writer.js";

/** A part of one tensor. `bytes` is valid until the next piece is asked for, and aligned for any typed array. */
export interface TensorPiece {
  readonly entry: TensorEntry;
  /** Position of the first byte within the tensor. */
  readonly begin: number;
  readonly bytes: Uint8Array;
  /** Whether the tensor ends with this piece. */
  readonly isLast: boolean;
}

export interface PieceOptions {
  /** Most bytes of a piece, a multiple of 16. Default 2 MiB: few calls, and a piece stays in the processor's cache. */
  pieceBytes?: number;
  /** Pieces being read while one is looked at (default 2). Memory in use is (ahead + 1) × pieceBytes. */
  ahead?: number;
  /**
   * Memory to read into, such as that of a WebAssembly module: ahead + 1 buffers of pieceBytes. Small tensors come in
   * memory of their own all the same.
   */
  buffers?: readonly Uint8Array[];
}

const PIECE_BYTES = 2 ** 21;
/** Tensors up to this size are taken from the reader's own block, which serves many of them with one read. */
const SMALL_BYTES = 2 ** 15;

interface Task {
  readonly entry: TensorEntry;
  readonly begin: number;
  readonly length: number;
}

/**
 * The bytes of the tensors `names` (default: all, in the order of their data). A tensor without elements gives one
 * empty piece.
 * @throws SafetensorsError as `read` of the reader does.
 */
export function readPieces(
  reader: TensorReader,
  names: Iterable<string> = reader.entries.keys(),
  options: PieceOptions = {},
): AsyncGenerator<TensorPiece, void, undefined> {
  return readInto([...(options.buffers ?? [])], reader, names, options);
}

/** `free` has buffers to use, and gets all of them back. */
async function* readInto(
  free: Uint8Array[],
  reader: TensorReader,
  names: Iterable<string>,
  { pieceBytes = PIECE_BYTES, ahead = 2 }: PieceOptions,
): AsyncGenerator<TensorPiece, void, undefined> {
  const tasks = piecesOf(reader, names, pieceBytes);
  const pending: { task: Task; bytes: Promise<Uint8Array>; buffer: Uint8Array | undefined }[] = [];
  const start = () => {
    const next = tasks.next();
    if (next.done === true) return;
    const task = next.value;
    const { entry, begin, length } = task;
    let buffer: Uint8Array | undefined;
    let bytes: Promise<Uint8Array>;
    if (length === 0) bytes = Promise.resolve(new Uint8Array(0));
    else if (entry.sizeBytes <= SMALL_BYTES || reader.readRangeInto === undefined) {
      bytes = reader.readRange(entry.name, begin, begin + length).then(aligned);
    } else {
      const room = free.pop() ?? new Uint8Array(pieceBytes);
      const target = room.subarray(0, length);
      buffer = room;
      bytes = reader.readRangeInto(entry.name, begin, target).then(() => target);
    }
    // Whoever stops listening early must not turn a failed read into an unhandled rejection.
    bytes.catch(() => undefined);
    pending.push({ task, bytes, buffer });
  };
  try {
    for (let i = 0; i <= ahead; i++) start();
    for (let next = pending.shift(); next !== undefined; next = pending.shift()) {
      const { entry, begin, length } = next.task;
      const bytes = await next.bytes;
      yield { entry, begin, bytes, isLast: begin + length === entry.sizeBytes };
      if (next.buffer !== undefined) free.push(next.buffer);
      start();
    }
  } finally {
    // Reads in flight write into memory that the caller may hand out again, and into a source it may close.
    await Promise.allSettled(pending.map(({ bytes }) => bytes));
  }
}

/** The tensors of a reader as input of a writer, read piece by piece when their turn comes. */
export function tensorStreams(
  reader: TensorReader,
  names: Iterable<string> = reader.entries.keys(),
  options: PieceOptions = {},
): TensorStream[] {
  // A writer takes one tensor after the other, so that all of them can share buffers.
  const buffers: Uint8Array[] = [];
  return [...names].map((name) => {
    const { dtype, shape } = reader.entry(name);
    const data = async function* () {
      for await (const { bytes } of readInto(buffers, reader, [name], options)) yield bytes;
    };
    return { name, dtype, shape, data };
  });
}

function* piecesOf(
  reader: TensorReader,
  names: Iterable<string>,
  pieceBytes: number,
): Generator<Task, void, undefined> {
  for (const name of names) {
    const entry = reader.entry(name);
    let begin = 0;
    do {
      const length = Math.min(pieceBytes, entry.sizeBytes - begin);
      yield { entry, begin, length };
      begin += length;
    } while (begin < entry.sizeBytes);
  }
}

/** Sources in memory give views at any position. */
function aligned(bytes: Uint8Array): Uint8Array {
  return bytes.byteOffset % 16 === 0 ? bytes : new Uint8Array(bytes);
}
