// Named host tensors on their way into a safetensors file: dtypes, and tied tensors, which stand in the file once.
// The bytes themselves are the format's business; the way back is stored-tensors.ts.

import type { TensorStream } from "../formats/safetensors/index.node.js";
import type { DType, TensorData } from "../tensor/dtype.js";
import { encodeFloat16 } from "../util/half.js";

/** Whether tied tensors are written under one of their names or under each (for readers elsewhere). */
export type TiedTensors = "once" | "each";

export interface TensorPlan {
  readonly streams: readonly TensorStream[];
  /** Tied name → name of the same tensor that comes first. */
  readonly aliases: Readonly<Record<string, string>>;
}

export const fileDtypes = {
  float32: "F32",
  float64: "F64",
  float16: "F16",
  int32: "I32",
  bool: "BOOL",
} as const satisfies Record<DType, string>;

/** float16 is encoded in pieces of this many elements, so that no second copy of a tensor arises. */
const PIECE_ELEMENTS = 1 << 18;

export function planTensors(tensors: ReadonlyMap<string, TensorData>, tied: TiedTensors): TensorPlan {
  const streams: TensorStream[] = [];
  const aliases = new Map<string, string>();
  const firstNames = new Map<ArrayBufferLike, Map<string, string>>();
  for (const [name, tensor] of tensors) {
    const { buffer, byteOffset, byteLength } = tensor.data;
    const sameBuffer = firstNames.get(buffer) ?? new Map<string, string>();
    firstNames.set(buffer, sameBuffer);
    const place = `${tensor.dtype} ${tensor.shape.join("x")} ${byteOffset} ${byteLength}`;
    const firstName = byteLength === 0 ? undefined : sameBuffer.get(place);
    if (firstName === undefined) sameBuffer.set(place, name);
    else aliases.set(name, firstName);
    if (firstName === undefined || tied === "each") streams.push(streamOf(name, tensor));
  }
  return { streams, aliases: Object.fromEntries(aliases) };
}

function streamOf(name: string, { dtype, shape, data }: TensorData): TensorStream {
  if (dtype !== "float16") return { name, dtype: fileDtypes[dtype], shape, data };
  return {
    name,
    dtype: "F16",
    shape,
    data: function* () {
      for (let begin = 0; begin < data.length; begin += PIECE_ELEMENTS) {
        const bits = encodeFloat16(data.subarray(begin, begin + PIECE_ELEMENTS) as Float32Array);
        yield new Uint8Array(bits.buffer, bits.byteOffset, bits.byteLength);
      }
    },
  };
}
