// numpy arrays and scalars of plain numbers, as random generators' states and some metrics are written. Arrays of
// objects, records and texts are refused: those can hold anything.

import { NumpyArray, type TorchValue } from "../values.js";
import {
  type CallContext,
  describeItem,
  type Item,
  NumpyDtype,
  PickleClass,
  type PickleFunction,
} from "./items.js";

const CODES = /^[<>|=]?(b1|[iu][1248]|f[248]|c8|c16)$/;

function makeDtype([code]: readonly Item[], context: CallContext): Item {
  const match = typeof code === "string" ? CODES.exec(code) : null;
  if (match === null)
    context.fail(
      "forbidden_call",
      `this file wants to call numpy.dtype with ${describeItem(code)}; only numbers are read`,
    );
  const dtype = new NumpyDtype(match[1]!);
  dtype.isBigEndian = (code as string).startsWith(">");
  return dtype;
}

/** (ndarray, (0,), b"b"): an empty array, whose contents follow. */
function reconstruct([type, shape]: readonly Item[], context: CallContext): Item {
  const isEmpty = context.isTuple(shape) && shape.length === 1 && shape[0] === 0;
  if (!(type instanceof PickleClass && type.name === "numpy.ndarray") || !isEmpty)
    context.fail(
      "forbidden_call",
      `this file wants to call numpy's _reconstruct to make ${describeItem(type)}`,
    );
  return new NumpyArray("", [0], new Uint8Array(0));
}

/** (bytes, dtype, shape, order): how protocol 5 writes an array. */
function fromBuffer([bytes, dtype, shape, order]: readonly Item[], context: CallContext): Item {
  const array = new NumpyArray("", [0], new Uint8Array(0));
  fill(array, { shape, dtype, isColumnMajor: order !== "C", bytes }, context);
  return array;
}

/** (dtype, bytes) */
function scalar([dtype, bytes]: readonly Item[], context: CallContext): TorchValue {
  if (!(dtype instanceof NumpyDtype) || !(bytes instanceof Uint8Array))
    context.fail("forbidden_call", `this file wants to call numpy's scalar with ${describeItem(dtype)}`);
  const { buffer } = littleEndian(dtype, bytes, 1, context).slice();
  const view = new DataView(buffer);
  switch (dtype.code) {
    case "b1":
      return view.getUint8(0) !== 0;
    case "i1":
      return view.getInt8(0);
    case "u1":
      return view.getUint8(0);
    case "i2":
      return view.getInt16(0, true);
    case "u2":
      return view.getUint16(0, true);
    case "i4":
      return view.getInt32(0, true);
    case "u4":
      return view.getUint32(0, true);
    case "i8":
      return fromBigInt(view.getBigInt64(0, true));
    case "u8":
      return fromBigInt(view.getBigUint64(0, true));
    case "f4":
      return view.getFloat32(0, true);
    case "f8":
      return view.getFloat64(0, true);
    default:
      return context.fail("unsupported", `a numpy scalar of type ${dtype.code}`);
  }
}

export const numpyConstructors: Readonly<Record<string, Readonly<Record<string, PickleFunction["call"]>>>> = {
  numpy: { dtype: makeDtype },
  "numpy.core.multiarray": { _reconstruct: reconstruct, scalar },
  "numpy.core.numeric": { _frombuffer: fromBuffer },
};

/** BUILD of an element type (its byte order) or an array (its contents). False for every other object. */
export function buildNumpyState(target: Item, state: Item, context: CallContext): boolean {
  if (target instanceof NumpyDtype) {
    const order = context.isTuple(state) ? state[1] : undefined;
    const [, , ...rest] = context.isTuple(state) ? state : [];
    // (version, byte order, subdtype, names, fields, size, alignment, flags): nothing but numbers in a row.
    if (!["<", ">", "|", "="].includes(order as string) || rest.slice(0, 3).some((part) => part !== null))
      context.fail("unsupported", "a numpy array of records or with an unknown byte order");
    target.isBigEndian = order === ">";
    return true;
  }
  if (!(target instanceof NumpyArray)) return false;
  if (target.dtype !== "" || !context.isTuple(state) || state.length !== 5)
    context.fail("pickle", "the contents of a numpy array are not as numpy writes them");
  const [, shape, dtype, isColumnMajor, bytes] = state;
  fill(target, { shape, dtype, isColumnMajor: isColumnMajor !== false, bytes }, context);
  return true;
}

interface Contents {
  readonly shape: Item | undefined;
  readonly dtype: Item | undefined;
  readonly isColumnMajor: boolean;
  readonly bytes: Item | undefined;
}

/** Arrays are filled in place, since the pickle may have referred to them before. */
function fill(
  array: NumpyArray,
  { shape, dtype, isColumnMajor, bytes }: Contents,
  context: CallContext,
): void {
  if (!(dtype instanceof NumpyDtype) || !(bytes instanceof Uint8Array) || !context.isTuple(shape))
    context.fail("unsupported", `a numpy array whose contents are ${describeItem(bytes)}`);
  if (!shape.every((extent) => Number.isSafeInteger(extent) && (extent as number) >= 0))
    context.fail("pickle", "a numpy array has a shape that is no list of sizes");
  if (isColumnMajor && shape.length > 1)
    context.fail("unsupported", "a numpy array with its columns one after another");
  const sizes = shape as readonly number[];
  const count = sizes.reduce((product, extent) => product * extent, 1);
  Object.assign(array, {
    dtype: dtype.code,
    shape: sizes,
    bytes: littleEndian(dtype, bytes, count, context),
  });
}

function littleEndian(dtype: NumpyDtype, bytes: Uint8Array, count: number, context: CallContext): Uint8Array {
  const width = Number(dtype.code.slice(1));
  if (bytes.byteLength !== count * width)
    context.fail("pickle", `a numpy array of ${count} ${dtype.code} has ${bytes.byteLength} bytes`);
  const unit = dtype.code.startsWith("c") ? width / 2 : width;
  if (!dtype.isBigEndian || unit === 1) return bytes;
  const swapped = bytes.slice();
  for (let start = 0; start < swapped.byteLength; start += unit)
    swapped.subarray(start, start + unit).reverse();
  return swapped;
}

function fromBigInt(value: bigint): number | bigint {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
}
