// The tensors of a PyTorch file, read one by one when they are asked for, in the same way as those of a safetensors
// file. A view comes with its elements in row-major order, whatever its strides.

import type { TensorEntry } from "../safetensors/header.js";
import type { SafetensorsTensor, TensorReader } from "../safetensors/reader.js";
import type { ByteSource } from "../safetensors/source.js";
import { safetensorsDtypeOf, TORCH_DTYPE_BYTES } from "./dtypes.js";
import { TorchFileError } from "./errors.js";
import { gather, isContiguous } from "./gather.js";
import { readRange } from "./source.js";
import type { TorchStorage, TorchTensor } from "./values.js";

/** Default piece of `chunks`. */
const CHUNK_BYTES = 2 ** 23;

export interface TensorPlaces {
  readonly source: ByteSource;
  locate(storage: TorchStorage): Promise<number>;
}

/** Bytes that a tensor takes when its elements follow one another. */
export function denseSizeBytes(tensor: TorchTensor): number {
  return tensor.elementCount * TORCH_DTYPE_BYTES[tensor.dtype];
}

/** Bytes `begin` to `end` of the dense form of a tensor. */
export async function readTensorBytes(
  { source, locate }: TensorPlaces,
  tensor: TorchTensor,
  begin: number,
  end: number,
): Promise<Uint8Array> {
  if (begin === end) return new Uint8Array(0);
  const width = TORCH_DTYPE_BYTES[tensor.dtype];
  const start = await locate(tensor.storage);
  if (isContiguous(tensor))
    return readRange(source, start + tensor.storageOffset * width + begin, end - begin);
  const first = Math.floor(begin / width);
  const bytes = await gather(tensor, first, Math.ceil(end / width), (offset, length) =>
    readRange(source, start + offset, length),
  );
  return bytes.subarray(begin - first * width, end - first * width);
}

/** Named tensors of a file. Tensors whose type the safetensors format lacks are not among them. */
export class TorchTensorReader implements TensorReader {
  readonly file: string | undefined;
  /** `dataOffsets` count within the tensor's own storage. */
  readonly entries: ReadonlyMap<string, TensorEntry>;
  /** PyTorch files have none. */
  readonly metadata: ReadonlyMap<string, string> = new Map();
  /** Name → earlier name of the same view of the same storage (tied weights). */
  readonly aliases: ReadonlyMap<string, string>;
  /** The views themselves. */
  readonly tensors: ReadonlyMap<string, TorchTensor>;
  readonly #places: TensorPlaces;
  readonly #close: () => Promise<void>;

  constructor(tensors: ReadonlyMap<string, TorchTensor>, places: TensorPlaces, close: () => Promise<void>) {
    this.file = places.source.name;
    this.#places = places;
    this.#close = close;
    const entries = new Map<string, TensorEntry>();
    const kept = new Map<string, TorchTensor>();
    for (const [name, tensor] of tensors) {
      const entry = entryOf(name, tensor);
      if (entry === undefined) continue;
      entries.set(name, entry);
      kept.set(name, tensor);
    }
    this.entries = entries;
    this.tensors = kept;
    this.aliases = findAliases(kept);
  }

  entry(name: string): TensorEntry {
    const entry = this.entries.get(name);
    if (entry !== undefined) return entry;
    const message = `no such tensor; there are ${this.entries.size}`;
    throw new TorchFileError("tensor_not_found", message, { file: this.file, tensor: name });
  }

  async read(name: string): Promise<SafetensorsTensor> {
    const { dtype, shape, sizeBytes } = this.entry(name);
    try {
      return { dtype, shape, bytes: await this.readRange(name, 0, sizeBytes) };
    } catch (cause) {
      // What the platform says to a buffer that it cannot make.
      if (!(cause instanceof RangeError)) throw cause;
      const message = `${sizeBytes} bytes do not fit into one buffer on this platform; read the tensor in chunks`;
      throw new TorchFileError("too_large_for_memory", message, { file: this.file, tensor: name, cause });
    }
  }

  async readRange(name: string, begin: number, end: number): Promise<Uint8Array> {
    const { sizeBytes } = this.entry(name);
    if (!(begin >= 0 && begin <= end && end <= sizeBytes))
      throw new RangeError(`bytes ${begin} to ${end} are outside of a tensor of ${sizeBytes} bytes`);
    return readTensorBytes(this.#places, this.tensors.get(name)!, begin, end);
  }

  async readInto(name: string, target: ArrayBufferView): Promise<void> {
    const { sizeBytes } = this.entry(name);
    if (target.byteLength !== sizeBytes) {
      const message = `has ${sizeBytes} bytes, the buffer to read into has ${target.byteLength}`;
      throw new TorchFileError("tensor", message, { file: this.file, tensor: name });
    }
    const bytes = new Uint8Array(target.buffer, target.byteOffset, target.byteLength);
    let offset = 0;
    for await (const chunk of this.chunks(name)) {
      bytes.set(chunk, offset);
      offset += chunk.byteLength;
    }
  }

  async *chunks(name: string, chunkBytes = CHUNK_BYTES): AsyncGenerator<Uint8Array, void, undefined> {
    const { sizeBytes } = this.entry(name);
    for (let begin = 0; begin < sizeBytes; begin += chunkBytes)
      yield await this.readRange(name, begin, Math.min(begin + chunkBytes, sizeBytes));
  }

  async close(): Promise<void> {
    await this.#close();
  }
}

function entryOf(name: string, tensor: TorchTensor): TensorEntry | undefined {
  const dtype = safetensorsDtypeOf(tensor.dtype);
  if (dtype === undefined) return undefined;
  const width = TORCH_DTYPE_BYTES[tensor.dtype];
  const begin = tensor.storageOffset * width;
  const sizeBytes = denseSizeBytes(tensor);
  const span = tensor.shape.reduce((sum, extent, axis) => sum + (extent - 1) * tensor.strides[axis]!, 1);
  return {
    name,
    dtype,
    shape: tensor.dtype === "float4_e2m1fn_x2" ? unpackedShape(tensor.shape) : tensor.shape,
    dataOffsets: [begin, sizeBytes === 0 ? begin : begin + span * width],
    sizeBytes,
  };
}

/** PyTorch counts bytes of two elements each, the safetensors format counts elements. */
function unpackedShape(shape: readonly number[]): readonly number[] {
  return shape.length === 0 ? [2] : [...shape.slice(0, -1), 2 * shape.at(-1)!];
}

function findAliases(tensors: ReadonlyMap<string, TorchTensor>): Map<string, string> {
  const aliases = new Map<string, string>();
  const seen = new Map<string, string>();
  for (const [name, { storage, dtype, storageOffset, shape, strides, elementCount }] of tensors) {
    if (elementCount === 0) continue;
    const view = JSON.stringify([storage.key, dtype, storageOffset, shape, strides]);
    const first = seen.get(view);
    if (first === undefined) seen.set(view, name);
    else aliases.set(name, first);
  }
  return aliases;
}
