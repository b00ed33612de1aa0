// Tensors of this library and of the format, one into the other: what a state dict holds becomes plain bytes with a
// dtype of the format. Copies are the caller's: `toStream` makes none, `cpuTensor` always makes one.

import type { DType, TensorData } from "../../tensor/dtype.js";
import { encodeFloat16 } from "../../util/half.js";
import type { SafetensorsDtype } from "./dtypes.js";
import type { SafetensorsTensor } from "./reader.js";
import type { TensorInput, TensorStream } from "./writer.js";

/** A value of a state dict: a tensor of this library, a tensor read from a file, or one to be written. */
export type StateValue = TensorData | SafetensorsTensor | Omit<TensorInput, "name">;

const fileDtypes = {
  float32: "F32",
  float64: "F64",
  float16: "F16",
  int32: "I32",
  bool: "BOOL",
} as const satisfies Record<DType, SafetensorsDtype>;

/** float16 lives in float32 arrays here; it is narrowed in pieces, so that no second copy of a tensor arises. */
const NARROW_ELEMENTS = 2 ** 18;

/** A copy of `value` in memory of its own: later changes of the original, or of one tied to it, do not reach it. */
export function cpuTensor(value: StateValue): SafetensorsTensor {
  const { dtype, shape, data } = toStream("", value);
  if (typeof data !== "function") {
    return { dtype, shape: [...shape], bytes: new Uint8Array(asBytes(data)) };
  }
  const pieces = [...(data() as Iterable<Uint8Array>)];
  const bytes = new Uint8Array(pieces.reduce((total, piece) => total + piece.byteLength, 0));
  let offset = 0;
  for (const piece of pieces) {
    bytes.set(piece, offset);
    offset += piece.byteLength;
  }
  return { dtype, shape: [...shape], bytes };
}

/** {@link cpuTensor} for every tensor of a state. Tied tensors come back as independent ones. */
export function cpuStateDict(
  state: ReadonlyMap<unknown, StateValue> | Readonly<Record<string, StateValue>>,
): Map<string, SafetensorsTensor> {
  const entries: Iterable<[unknown, StateValue]> =
    Symbol.iterator in state
      ? (state as ReadonlyMap<unknown, StateValue>)
      : Object.entries(state as Readonly<Record<string, StateValue>>);
  return new Map([...entries].map(([name, value]) => [String(name), cpuTensor(value)]));
}

/** `value` as something the writer takes, without a copy. */
export function toStream(name: string, value: StateValue | Omit<TensorStream, "name">): TensorStream {
  if ("bytes" in value) return { name, dtype: value.dtype, shape: value.shape, data: value.bytes };
  if (!isHostTensor(value)) return { ...value, name };
  const { shape, data } = value;
  const dtype = fileDtypes[value.dtype];
  return { name, dtype, shape, data: dtype === "F16" ? () => narrowed(data as Float32Array) : data };
}

function isHostTensor(value: object): value is TensorData {
  return "dtype" in value && typeof value.dtype === "string" && value.dtype in fileDtypes;
}

function* narrowed(values: Float32Array): Generator<Uint8Array, void, undefined> {
  for (let begin = 0; begin < values.length; begin += NARROW_ELEMENTS) {
    yield asBytes(encodeFloat16(values.subarray(begin, begin + NARROW_ELEMENTS)));
  }
}

function asBytes({ buffer, byteOffset, byteLength }: ArrayBufferView): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}
