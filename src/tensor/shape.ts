// Shape arithmetic: sizes, strides and NumPy broadcasting. Pure functions over number arrays.

export type Shape = readonly number[];

/** Whether `shape` is a list of counts. */
export function isShape(shape: unknown): shape is Shape {
  return Array.isArray(shape) && Array.from(shape).every((n) => Number.isSafeInteger(n) && n >= 0);
}

/** Number of elements; 1 for a scalar (rank 0). */
export function sizeOf(shape: Shape): number {
  let size = 1;
  for (const extent of shape) size *= extent;
  return size;
}

/** Row-major strides in elements. */
export function stridesOf(shape: Shape): number[] {
  const strides = new Array<number>(shape.length);
  let stride = 1;
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    strides[axis] = stride;
    stride *= shape[axis]!;
  }
  return strides;
}

export function sameShape(a: Shape, b: Shape): boolean {
  return a.length === b.length && a.every((extent, axis) => extent === b[axis]);
}

/** The broadcast shape of `a` and `b` by NumPy's rule, or undefined when they do not fit. */
export function broadcastShapes(a: Shape, b: Shape): number[] | undefined {
  const rank = Math.max(a.length, b.length);
  const result = new Array<number>(rank);
  for (let i = 1; i <= rank; i++) {
    const x = a[a.length - i] ?? 1;
    const y = b[b.length - i] ?? 1;
    if (x !== y && x !== 1 && y !== 1) return undefined;
    result[rank - i] = x === 1 ? y : x;
  }
  return result;
}

/** Strides for reading an array of shape `from` as if it had the broadcast shape `to` (0 where repeated). */
export function broadcastStrides(from: Shape, to: Shape): number[] {
  const own = stridesOf(from);
  const lead = to.length - from.length;
  return to.map((_, axis) => (axis < lead || from[axis - lead] === 1 ? 0 : own[axis - lead]!));
}

/** Maps a possibly negative axis into 0…rank−1; undefined when out of range. */
export function normalizeAxis(axis: number, rank: number): number | undefined {
  if (!Number.isInteger(axis)) return undefined;
  const normal = axis < 0 ? axis + rank : axis;
  return normal >= 0 && normal < rank ? normal : undefined;
}

export function formatShape(shape: Shape): string {
  return `[${Array.from(shape, String).join(", ")}]`;
}
