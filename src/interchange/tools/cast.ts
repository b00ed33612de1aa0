// Tensors in another floating dtype, made piece by piece while they are written. Integers, booleans, complex numbers
// and packed floats stay as they are. A finite value that the target cannot hold is an error unless it is accepted.

import { readPieces, type TensorReader, type TensorStream } from "../../formats/safetensors/index.js";
import { toolError } from "./errors.js";
import { decodeValues, encodeValues, type FloatTarget, isPacked } from "./values.js";

export interface CastOptions {
  readonly to: FloatTarget;
  /** Whether to convert this tensor, if it is floating-point at all. Default: all. */
  readonly isIncluded?: (name: string) => boolean;
  /** Values beyond the target's range become infinite; without this they are an error. */
  readonly allowOverflow?: boolean;
  readonly onOverflow?: (tensor: string, count: number) => void;
}

export interface CastPlan {
  readonly streams: readonly TensorStream[];
  /** Names of the tensors that change their dtype. */
  readonly converted: readonly string[];
}

export function planCast(reader: TensorReader, options: CastOptions): CastPlan {
  const { to, isIncluded = () => true } = options;
  const converted: string[] = [];
  const streams = [...reader.entries.values()].map(({ name, dtype, shape }): TensorStream => {
    const isConverted = /^B?F[0-9]/.test(dtype) && !isPacked(dtype) && dtype !== to && isIncluded(name);
    if (!isConverted) return { name, dtype, shape, data: () => bytesOf(reader, name) };
    converted.push(name);
    return { name, dtype: to, shape, data: () => castBytes(reader, name, options) };
  });
  return { streams, converted };
}

async function* bytesOf(reader: TensorReader, name: string): AsyncGenerator<Uint8Array, void, undefined> {
  for await (const { bytes } of readPieces(reader, [name])) yield bytes;
}

async function* castBytes(
  reader: TensorReader,
  name: string,
  { to, allowOverflow = false, onOverflow }: CastOptions,
): AsyncGenerator<Uint8Array, void, undefined> {
  let overflows = 0;
  let largest = 0;
  for await (const { entry, bytes } of readPieces(reader, [name])) {
    const values = decodeValues(entry.dtype, bytes);
    const limit = LARGEST_THAT_ROUNDS_DOWN[to];
    for (let i = 0; i < values.length; i++) {
      const size = Math.abs(values[i]!);
      if (size >= limit && size < Number.POSITIVE_INFINITY) {
        overflows++;
        if (size > largest) largest = size;
      }
    }
    if (overflows > 0 && !allowOverflow) {
      throw toolError(
        "overflow",
        `tensor "${name}": ${largest} is beyond the range of ${to} and would become infinite; ` +
          "choose bf16 or f32, leave the tensor out, or accept infinities",
        { tensor: name, value: largest, dtype: to },
      );
    }
    yield encodeValues(to, values);
  }
  if (overflows > 0) onOverflow?.(name, overflows);
}

/** Half way between the largest finite number and the next power of two: from here on rounding gives infinity. */
const LARGEST_THAT_ROUNDS_DOWN: Readonly<Record<FloatTarget, number>> = {
  F64: Number.POSITIVE_INFINITY,
  F32: (2 - 2 ** -24) * 2 ** 127,
  F16: 65520,
  BF16: (2 - 2 ** -8) * 2 ** 127,
};
