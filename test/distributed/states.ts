// Helpers of the wire tests: states in memory, files in memory, sinks.

import {
  type ByteSink,
  bytesSource,
  encodeSafetensors,
  openSafetensors,
  parseSafetensors,
  type SafetensorsTensor,
  type TensorInput,
  type TensorStream,
  toFloat32,
  writeSafetensors,
} from "../../src/formats/safetensors/index.js";

export const f32 = (name: string, ...values: number[]): TensorInput => ({
  name,
  dtype: "F32",
  shape: [values.length],
  data: Float32Array.from(values),
});

/** A state in memory. */
export const memory = (...tensors: TensorInput[]): Map<string, SafetensorsTensor> =>
  new Map(
    tensors.map(({ name, dtype, shape, data }) => [
      name,
      { dtype, shape, bytes: new Uint8Array(data.buffer, data.byteOffset, data.byteLength) },
    ]),
  );

/** The same behind a reader of a file. */
export const opened = (...tensors: TensorInput[]) =>
  openSafetensors(bytesSource(encodeSafetensors(tensors), "file"));

export class MemorySink implements ByteSink {
  readonly #chunks: Uint8Array[] = [];

  async write(chunk: Uint8Array): Promise<void> {
    this.#chunks.push(new Uint8Array(chunk));
  }

  get bytes(): Uint8Array {
    return new Uint8Array(Buffer.concat(this.#chunks));
  }
}

export const hex = (bytes: ArrayBufferView) =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("hex");

/** Streams run through the writer, as plain values by name. */
export async function valuesOf(streams: TensorStream[]): Promise<Record<string, number[]>> {
  const sink = new MemorySink();
  await writeSafetensors(sink, streams);
  return fileValues(sink.bytes);
}

export function fileValues(bytes: Uint8Array): Record<string, number[]> {
  const view = parseSafetensors(bytes);
  return Object.fromEntries([...view.entries.keys()].map((name) => [name, [...toFloat32(view.read(name))]]));
}
