// Reference kernels of the operators that move or repeat elements without computing, and of the generators.

import type { TensorData } from "../../../dtype.js";
import type { OpName } from "../../../ops/params.js";
import { broadcastStrides, type Shape, sizeOf, stridesOf } from "../../../shape.js";
import type { ReferenceKernel } from "../kernel.js";
import { axisView, stridedOffsets } from "../strided.js";

/** Elements of `x` at `offsets`. */
function pick(x: TensorData, offsets: Int32Array): Float64Array {
  return Float64Array.from(offsets, (offset) => x.data[offset]!);
}

function dot(a: readonly number[], b: readonly number[]): number {
  return a.reduce((sum, value, i) => sum + value * b[i]!, 0);
}

const triangle =
  <K extends "tril" | "triu">(
    keeps: (row: number, column: number, diagonal: number) => boolean,
  ): ReferenceKernel<K> =>
  ({ diagonal }, [x]) => {
    const [rows, columns] = x!.shape.slice(-2) as [number, number];
    return [
      Float64Array.from(x!.data, (value, i) =>
        keeps(Math.floor(i / columns) % rows, i % columns, diagonal) ? value : 0,
      ),
    ];
  };

/** A sub-array of `x` of shape `shape` whose first element stands at `starts`. */
function window(x: TensorData, shape: Shape, starts: readonly number[]): Float64Array {
  const strides = stridesOf(x.shape);
  return pick(x, stridedOffsets(shape, strides, dot(starts, strides)));
}

export const movementKernels = {
  reshape: (_, [x]) => [Float64Array.from(x!.data)],
  transpose: ({ perm }, [x], [type]) => {
    const strides = stridesOf(x!.shape);
    return [
      pick(
        x!,
        stridedOffsets(
          type!.shape,
          perm.map((axis) => strides[axis]!),
        ),
      ),
    ];
  },
  expand: ({ shape }, [x]) => [pick(x!, stridedOffsets(shape, broadcastStrides(x!.shape, shape)))],
  concat: ({ axis }, inputs, [type]) => {
    const { outer } = axisView(type!.shape, axis);
    const result = new Float64Array(sizeOf(type!.shape));
    let at = 0;
    for (let o = 0; o < outer; o++) {
      for (const t of inputs) {
        const run = sizeOf(t.shape.slice(axis));
        result.set(t.data.subarray(o * run, (o + 1) * run), at);
        at += run;
      }
    }
    return [result];
  },
  split: ({ axis, sizes }, [x], outputs) => {
    let start = 0;
    return outputs.map(({ shape }, part) => {
      const starts = shape.map((_, i) => (i === axis ? start : 0));
      start += sizes[part]!;
      return window(x!, shape, starts);
    });
  },
  slice: ({ starts }, [x], [type]) => [window(x!, type!.shape, starts)],
  pad: ({ low, value }, [x], [type]) => {
    const result = new Float64Array(sizeOf(type!.shape)).fill(value);
    const strides = stridesOf(type!.shape);
    stridedOffsets(x!.shape, strides, dot(low, strides)).forEach((offset, i) => {
      result[offset] = x!.data[i]!;
    });
    return [result];
  },
  tril: triangle((row, column, diagonal) => column <= row + diagonal),
  triu: triangle((row, column, diagonal) => column >= row + diagonal),
  iota: ({ size }) => [Float64Array.from({ length: size }, (_, i) => i)],
  oneHot: ({ depth }, [indices]) => {
    const result = new Float64Array(indices!.data.length * depth);
    indices!.data.forEach((index, i) => {
      if (index >= 0 && index < depth) result[i * depth + index] = 1;
    });
    return [result];
  },
} satisfies Partial<{ [K in OpName]: ReferenceKernel<K> }>;
