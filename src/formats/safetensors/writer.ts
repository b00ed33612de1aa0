// Writing canonical safetensors: the same tensors and metadata always give the same bytes, whatever order they
// come in. Metadata first with sorted keys, tensors by dtype then name, header padded with spaces to 8 bytes.
// Streaming: a tensor's bytes go from its provider to the sink, and no second copy of the state is made.

import { dtypeRank, isSafetensorsDtype, type SafetensorsDtype, tensorSizeBytes } from "./dtypes.js";
import { quote, SafetensorsError } from "./errors.js";
import { LENGTH_FIELD_BYTES, MAX_HEADER_BYTES, METADATA_KEY } from "./header.js";

/** A tensor to write. `data` is little-endian and row-major, as typed arrays are. */
export interface TensorInput {
  readonly name: string;
  readonly dtype: SafetensorsDtype;
  readonly shape: readonly number[];
  readonly data: ArrayBufferView;
}

/** Gives a tensor's bytes piece by piece when its turn comes; a piece may be reused once the next is asked for. */
export type ChunkProvider = () => Iterable<Uint8Array> | AsyncIterable<Uint8Array>;

/** A tensor to stream: bytes at hand, or pieces that are made on demand. */
export interface TensorStream extends Omit<TensorInput, "data"> {
  readonly data: ArrayBufferView | ChunkProvider;
}

/** Where the bytes of a file go, in order. */
export interface ByteSink {
  /** Told the size of the whole file before the first byte, where the sink can make use of it. */
  reserve?(sizeBytes: number): Promise<void>;
  write(chunk: Uint8Array): Promise<void>;
}

export type MetadataInput = ReadonlyMap<string, string> | Readonly<Record<string, string>>;

interface Plan<T> {
  /** Length field and header. */
  readonly head: Uint8Array;
  readonly tensors: readonly { readonly tensor: T; readonly sizeBytes: number }[];
  readonly fileSizeBytes: number;
}

const ALIGNMENT_BYTES = 8;

/**
 * The whole file in memory.
 * @throws SafetensorsError when names, shapes, sizes or metadata cannot be written.
 */
export function encodeSafetensors(tensors: Iterable<TensorInput>, metadata: MetadataInput = {}): Uint8Array {
  const plan = planFile(tensors, metadata);
  const file = allocate(plan.fileSizeBytes);
  file.set(plan.head, 0);
  let offset = plan.head.byteLength;
  for (const { tensor, sizeBytes } of plan.tensors) {
    file.set(asBytes(tensor.data), offset);
    offset += sizeBytes;
  }
  return file;
}

/**
 * Streams a file into `sink` and returns its size in bytes. After an error the sink has a part of a file, which
 * its owner must throw away.
 * @throws SafetensorsError when something cannot be written, or a provider gives too few or too many bytes.
 */
export async function writeSafetensors(
  sink: ByteSink,
  tensors: Iterable<TensorStream>,
  metadata: MetadataInput = {},
): Promise<number> {
  const plan = planFile(tensors, metadata);
  await sink.reserve?.(plan.fileSizeBytes);
  await sink.write(plan.head);
  for (const { tensor, sizeBytes } of plan.tensors) {
    if (typeof tensor.data === "function") await writeChunks(sink, tensor.name, tensor.data, sizeBytes);
    else if (sizeBytes > 0) await sink.write(asBytes(tensor.data));
  }
  return plan.fileSizeBytes;
}

/** Size of the file that these tensors give, without reading their data; for checks of free space. */
export function safetensorsSizeBytes(tensors: Iterable<TensorStream>, metadata: MetadataInput = {}): number {
  return planFile(tensors, metadata).fileSizeBytes;
}

function allocate(sizeBytes: number): Uint8Array {
  try {
    return new Uint8Array(sizeBytes);
  } catch (cause) {
    const message = `the file of ${sizeBytes} bytes does not fit into one buffer; stream it with writeSafetensors`;
    throw new SafetensorsError("too_large_for_memory", message, { cause });
  }
}

async function writeChunks(sink: ByteSink, name: string, provide: ChunkProvider, sizeBytes: number) {
  let writtenBytes = 0;
  for await (const chunk of provide()) {
    writtenBytes += chunk.byteLength;
    if (writtenBytes > sizeBytes) break;
    await sink.write(chunk);
  }
  if (writtenBytes === sizeBytes) return;
  const amount = writtenBytes > sizeBytes ? "more" : `only ${writtenBytes}`;
  const message = `its shape and dtype take ${sizeBytes} bytes, the provider gave ${amount}`;
  throw new SafetensorsError("size_mismatch", message, { tensor: name });
}

function planFile<T extends TensorStream>(tensors: Iterable<T>, metadata: MetadataInput): Plan<T> {
  const sized = [...tensors].map((tensor) => ({ tensor, sizeBytes: checkTensor(tensor) }));
  sized.sort(
    ({ tensor: a }, { tensor: b }) => dtypeRank(a.dtype) - dtypeRank(b.dtype) || compareUtf8(a.name, b.name),
  );
  const parts = [`${JSON.stringify(METADATA_KEY)}:${encodeMetadata(metadata)}`];
  const names = new Set<string>();
  let offset = 0;
  for (const { tensor, sizeBytes } of sized) {
    const { name, dtype, shape } = tensor;
    if (names.has(name)) throw new SafetensorsError("duplicate_key", "given twice", { tensor: name });
    names.add(name);
    const end = offset + sizeBytes;
    parts.push(
      `${JSON.stringify(name)}:{"dtype":"${dtype}","shape":[${shape.join(",")}],"data_offsets":[${offset},${end}]}`,
    );
    offset = end;
  }
  const head = encodeHead(`{${parts.join(",")}}`);
  return { head, tensors: sized, fileSizeBytes: head.byteLength + offset };
}

function encodeHead(json: string): Uint8Array {
  const text = new TextEncoder().encode(json);
  const headerBytes = Math.ceil(text.byteLength / ALIGNMENT_BYTES) * ALIGNMENT_BYTES;
  if (headerBytes > MAX_HEADER_BYTES) {
    const message = `the header would have ${headerBytes} bytes, the format allows ${MAX_HEADER_BYTES}: split the tensors over several files`;
    throw new SafetensorsError("header_too_large", message);
  }
  const head = new Uint8Array(LENGTH_FIELD_BYTES + headerBytes).fill(0x20);
  new DataView(head.buffer).setBigUint64(0, BigInt(headerBytes), true);
  head.set(text, LENGTH_FIELD_BYTES);
  return head;
}

function checkTensor({ name, dtype, shape, data }: TensorStream): number {
  const refuse = (
    problem: "invalid_name" | "unknown_dtype" | "overflow" | "size_mismatch",
    message: string,
  ) => new SafetensorsError(problem, message, { tensor: name });
  if (name === METADATA_KEY)
    throw refuse("invalid_name", "this name is taken by the format; rename the tensor");
  if (!isWellFormed(name))
    throw refuse("invalid_name", "the name has half a surrogate pair, UTF-8 has no bytes for it");
  if (!isSafetensorsDtype(dtype)) throw refuse("unknown_dtype", `unknown dtype ${quote(String(dtype))}`);
  const shapeText = `[${shape.join(",")}]`;
  if (!shape.every((dimension) => Number.isSafeInteger(dimension) && dimension >= 0)) {
    throw refuse("overflow", `shape ${shapeText} must consist of integers from 0 to 2^53 - 1`);
  }
  const sizeBytes = tensorSizeBytes(dtype, shape);
  if (sizeBytes === "overflow")
    throw refuse("overflow", `shape ${shapeText} of ${dtype} has more than 2^53 - 1 bits`);
  if (sizeBytes === "partial_byte") {
    throw refuse("size_mismatch", `shape ${shapeText} of ${dtype} does not fill whole bytes`);
  }
  if (typeof data !== "function" && data.byteLength !== sizeBytes) {
    const message = `shape ${shapeText} of ${dtype} takes ${sizeBytes} bytes, its data has ${data.byteLength}`;
    throw refuse("size_mismatch", message);
  }
  return sizeBytes;
}

function encodeMetadata(metadata: MetadataInput): string {
  const pairs: [string, unknown][] = isMap(metadata) ? [...metadata] : Object.entries(metadata);
  pairs.sort(([a], [b]) => compareUtf8(a, b));
  const members = pairs.map(([key, value]) => {
    if (typeof value !== "string") {
      const message = `value of metadata ${quote(key)} must be a string, is ${typeof value}`;
      throw new SafetensorsError("invalid_metadata", message);
    }
    if (!isWellFormed(key) || !isWellFormed(value)) {
      const message = `metadata ${quote(key)} has half a surrogate pair, UTF-8 has no bytes for it`;
      throw new SafetensorsError("invalid_metadata", message);
    }
    return `${JSON.stringify(key)}:${JSON.stringify(value)}`;
  });
  return `{${members.join(",")}}`;
}

/** Not by `instanceof`: a Map of another realm would pass for an empty record. */
function isMap(metadata: MetadataInput): metadata is ReadonlyMap<string, string> {
  return Symbol.iterator in metadata;
}

/** Order of the UTF-8 bytes, which is the order of code points; UTF-16 units sort surrogates too early. */
function compareUtf8(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    const x = a.charCodeAt(i);
    const y = b.charCodeAt(i);
    if (x === y) continue;
    const isSurrogateX = x >= 0xd800 && x <= 0xdfff;
    const isSurrogateY = y >= 0xd800 && y <= 0xdfff;
    return isSurrogateX === isSurrogateY ? x - y : isSurrogateX ? 1 : -1;
  }
  return a.length - b.length;
}

function isWellFormed(text: string): boolean {
  // With the "u" flag a pair is one character, so that only halves match.
  return !/\p{Surrogate}/u.test(text);
}

function asBytes(view: ArrayBufferView): Uint8Array {
  return new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
}
