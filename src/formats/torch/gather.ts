// The elements of a strided view in row-major order, from a storage that is read in pieces: a transposed or
// repeated tensor never needs its storage in memory whole.

import { TORCH_DTYPE_BYTES } from "./dtypes.js";
import type { TorchTensor } from "./values.js";

/** Bytes of a storage held at a time. */
const WINDOW_BYTES = 2 ** 25;
/** Rows from this size on are read one by one. */
const LONG_ROW_BYTES = 2 ** 15;

/** Reads bytes of the tensor's storage. */
export type StorageRead = (begin: number, length: number) => Promise<Uint8Array>;

/** Whether the elements follow one another in the storage. Strides of dimensions of size 1 do not matter. */
export function isContiguous({ shape, strides }: TorchTensor): boolean {
  let expected = 1;
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    if (shape[axis] === 0) return true;
    if (shape[axis] === 1) continue;
    if (strides[axis] !== expected) return false;
    expected *= shape[axis]!;
  }
  return true;
}

/** Elements `begin` to `end` of the tensor, in row-major order. */
export async function gather(
  tensor: TorchTensor,
  begin: number,
  end: number,
  read: StorageRead,
): Promise<Uint8Array> {
  const width = TORCH_DTYPE_BYTES[tensor.dtype];
  const out = new Uint8Array((end - begin) * width);
  const rowBytes = rowLength(tensor) * width;
  if (rowBytes >= LONG_ROW_BYTES) {
    for (const run of runsOf(tensor, begin, end))
      out.set(await read(run.source * width, run.length * width), (run.target - begin) * width);
    return out;
  }
  let low = Number.POSITIVE_INFINITY;
  let high = 0;
  for (const { source, length } of runsOf(tensor, begin, end)) {
    low = Math.min(low, source);
    high = Math.max(high, source + length);
  }
  const windowElements = Math.floor(WINDOW_BYTES / width);
  for (let from = low; from < high; from += windowElements) {
    const to = Math.min(from + windowElements, high);
    const window = await read(from * width, (to - from) * width);
    copyRuns(runsOf(tensor, begin, end), window, { from, to, begin, width }, out);
  }
  return out;
}

interface Run {
  /** Element of the storage. */
  source: number;
  /** Element of the tensor. */
  target: number;
  length: number;
}

interface Window {
  readonly from: number;
  readonly to: number;
  readonly begin: number;
  readonly width: number;
}

function copyRuns(runs: Iterable<Run>, window: Uint8Array, place: Window, out: Uint8Array): void {
  const { from, to, begin, width } = place;
  for (const { source, target, length } of runs) {
    const first = Math.max(source, from);
    const last = Math.min(source + length, to);
    if (first >= last) continue;
    let at = (first - from) * width;
    let into = (target - begin + first - source) * width;
    // A loop, since most runs are single elements, for which a call of `set` costs more.
    for (const stop = (last - from) * width; at < stop; at++) out[into++] = window[at]!;
  }
}

/** Elements of the last dimensions that follow one another in the storage. */
function rowLength({ shape, strides }: TorchTensor): number {
  let length = 1;
  for (let axis = shape.length - 1; axis >= 0 && (shape[axis] === 1 || strides[axis] === length); axis--)
    length *= shape[axis]!;
  return length;
}

/** The tensor's elements `begin` to `end` as runs of the storage. The object is reused from step to step. */
function* runsOf(tensor: TorchTensor, begin: number, end: number): Generator<Run> {
  const { storageOffset } = tensor;
  const row = rowLength(tensor);
  // Dimensions outside of a row; those of size 1 add nothing.
  const shape: number[] = [];
  const strides: number[] = [];
  let inner = 1;
  for (let axis = tensor.shape.length - 1; axis >= 0; axis--) {
    if (inner === row && tensor.shape[axis] !== 1) {
      shape.unshift(tensor.shape[axis]!);
      strides.unshift(tensor.strides[axis]!);
    } else inner *= tensor.shape[axis]!;
  }
  const index = new Array<number>(shape.length).fill(0);
  let rest = Math.floor(begin / row);
  let base = storageOffset;
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    index[axis] = rest % shape[axis]!;
    base += index[axis]! * strides[axis]!;
    rest = Math.floor(rest / shape[axis]!);
  }
  const run: Run = { source: 0, target: 0, length: 0 };
  for (let target = begin; target < end; ) {
    const inRow = target % row;
    run.source = base + inRow;
    run.target = target;
    run.length = Math.min(row - inRow, end - target);
    yield run;
    target += run.length;
    for (let axis = shape.length - 1; axis >= 0; axis--) {
      base += strides[axis]!;
      if (++index[axis]! < shape[axis]!) break;
      base -= shape[axis]! * strides[axis]!;
      index[axis] = 0;
    }
  }
}
