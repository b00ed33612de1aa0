// Index arithmetic that the reference kernels share: everything that moves or repeats elements is a list of
// source offsets.

import type { TensorData } from "../../dtype.js";
import { broadcastStrides, type Shape, sameShape, sizeOf } from "../../shape.js";

/** For each element of `shape` in row-major order, `start` plus its coordinates times `strides`. */
export function stridedOffsets(shape: Shape, strides: readonly number[], start = 0): Int32Array {
  const offsets = new Int32Array(sizeOf(shape));
  const position = new Array<number>(shape.length).fill(0);
  let offset = start;
  for (let i = 0; i < offsets.length; i++) {
    offsets[i] = offset;
    for (let axis = shape.length - 1; axis >= 0; axis--) {
      position[axis]!++;
      offset += strides[axis]!;
      if (position[axis]! < shape[axis]!) break;
      offset -= strides[axis]! * shape[axis]!;
      position[axis] = 0;
    }
  }
  return offsets;
}

/** Reads `t` as if it were broadcast to `shape`: element i of that shape. */
export function broadcastReader(t: TensorData, shape: Shape): (i: number) => number {
  const { data } = t;
  if (sameShape(t.shape, shape)) return (i) => data[i]!;
  if (data.length === 1) return () => data[0]!;
  const offsets = stridedOffsets(shape, broadcastStrides(t.shape, shape));
  return (i) => data[offsets[i]!]!;
}

interface AxisView {
  /** Product of the extents before the axis. */
  outer: number;
  extent: number;
  /** Product of the extents after the axis: the distance between neighbours along it. */
  inner: number;
}

/** `shape` seen as [outer, extent, inner] around `axis`. */
export function axisView(shape: Shape, axis: number): AxisView {
  return { outer: sizeOf(shape.slice(0, axis)), extent: shape[axis]!, inner: sizeOf(shape.slice(axis + 1)) };
}

/** Calls `visit(first, line)` for each line along the axis: the offset of its first element, and its number. */
export function forEachLine(
  { outer, extent, inner }: AxisView,
  visit: (first: number, line: number) => void,
): void {
  for (let o = 0; o < outer; o++)
    for (let i = 0; i < inner; i++) visit(o * extent * inner + i, o * inner + i);
}
