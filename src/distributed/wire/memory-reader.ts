// Tensors in memory behind the interface of a file being read, without a copy of them.

import { toStream } from "../../formats/safetensors/container.js";
import {
  cpuTensor,
  type SafetensorsTensor,
  type StateValue,
  type TensorEntry,
  type TensorReader,
} from "../../formats/safetensors/index.js";
import { WireError } from "./errors.js";

/** Closing does nothing. Ranges are views of the tensors' own memory. */
export class MemoryReader implements TensorReader {
  readonly entries: ReadonlyMap<string, TensorEntry>;
  readonly #tensors = new Map<string, SafetensorsTensor>();

  constructor(state: ReadonlyMap<string, StateValue>) {
    const entries = new Map<string, TensorEntry>();
    let end = 0;
    for (const [name, value] of state) {
      const tensor = tensorOf(name, value);
      const { dtype, shape, bytes } = tensor;
      const begin = end;
      end += bytes.byteLength;
      this.#tensors.set(name, tensor);
      entries.set(name, { name, dtype, shape, sizeBytes: bytes.byteLength, dataOffsets: [begin, end] });
    }
    this.entries = entries;
  }

  entry(name: string): TensorEntry {
    const entry = this.entries.get(name);
    if (entry !== undefined) return entry;
    throw new WireError("key_mismatch", `no such tensor; the state has ${this.entries.size} tensors`, {
      tensor: name,
    });
  }

  async read(name: string): Promise<SafetensorsTensor> {
    this.entry(name);
    return this.#tensors.get(name)!;
  }

  async readRange(name: string, begin: number, end: number): Promise<Uint8Array> {
    this.entry(name);
    return this.#tensors.get(name)!.bytes.subarray(begin, end);
  }

  async readInto(name: string, target: ArrayBufferView): Promise<void> {
    const { bytes } = await this.read(name);
    new Uint8Array(target.buffer, target.byteOffset, target.byteLength).set(bytes);
  }

  async *chunks(name: string, chunkBytes = 2 ** 23): AsyncGenerator<Uint8Array, void, undefined> {
    const { sizeBytes } = this.entry(name);
    for (let begin = 0; begin < sizeBytes; begin += chunkBytes) {
      yield await this.readRange(name, begin, Math.min(begin + chunkBytes, sizeBytes));
    }
  }

  async close(): Promise<void> {}
}

function tensorOf(name: string, value: StateValue): SafetensorsTensor {
  const { dtype, shape, data } = toStream(name, value);
  if (typeof data === "function") return cpuTensor(value);
  return { dtype, shape, bytes: new Uint8Array(data.buffer, data.byteOffset, data.byteLength) };
}
