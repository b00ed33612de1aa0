// What differs between two sets of tensors: names, shapes, dtypes, values. Streams both sides together, so that the
// size of a tensor does not matter; equal bytes are recognised without decoding.

import { readPieces, type TensorEntry, type TensorReader } from "../../formats/safetensors/index.js";
import { decodeValues, isPacked, type Values, valuesPerElement } from "./values.js";

export interface DifferenceOptions {
  /** Values a and b count as equal where |a - b| <= absoluteTolerance + relativeTolerance × |b|. Both default to 0. */
  readonly absoluteTolerance?: number;
  readonly relativeTolerance?: number;
  readonly onBytes?: (bytes: number, tensor: string) => void;
}

/** How far two tensors of one shape lie apart. */
export interface ValueDifference {
  /** Numbers that differ by more than the tolerance, and numbers in all. */
  readonly changed: number;
  readonly count: number;
  /** Largest |a - b|; infinite where only one side is finite, NaN never counts as equal to a number. */
  readonly maxAbsolute: number;
  /** Largest |a - b| / max(|a|, |b|). */
  readonly maxRelative: number;
  /** ‖a - b‖ / ‖b‖ over the finite values; infinite where b is zero. */
  readonly relativeNorm: number;
}

export interface TensorDifference {
  readonly name: string;
  readonly a: TensorEntry;
  readonly b: TensorEntry;
  readonly isShapeEqual: boolean;
  readonly isDtypeEqual: boolean;
  /** Absent where shapes differ or the values are the same. */
  readonly values?: ValueDifference;
}

export interface SetDifference {
  readonly onlyInA: readonly TensorEntry[];
  readonly onlyInB: readonly TensorEntry[];
  readonly different: readonly TensorDifference[];
  /** Tensors without any difference. */
  readonly sameCount: number;
}

export function isSame({ onlyInA, onlyInB, different }: SetDifference): boolean {
  return onlyInA.length + onlyInB.length + different.length === 0;
}

/** Compares `a` with `b`, in the order of `a`'s data. */
export async function compareTensors(
  a: TensorReader,
  b: TensorReader,
  options: DifferenceOptions = {},
): Promise<SetDifference> {
  const onlyInA = [...a.entries.values()].filter(({ name }) => !b.entries.has(name));
  const onlyInB = [...b.entries.values()].filter(({ name }) => !a.entries.has(name));
  const different: TensorDifference[] = [];
  let sameCount = 0;
  for (const [name, entryA] of a.entries) {
    const entryB = b.entries.get(name);
    if (entryB === undefined) continue;
    const isShapeEqual = entryA.shape.join() === entryB.shape.join();
    const isDtypeEqual = entryA.dtype === entryB.dtype;
    const values = isShapeEqual ? await compareValues(a, b, entryA, entryB, options) : undefined;
    if (!isShapeEqual) options.onBytes?.(entryA.sizeBytes, name);
    if (isShapeEqual && isDtypeEqual && values === undefined) sameCount++;
    else
      different.push({ name, a: entryA, b: entryB, isShapeEqual, isDtypeEqual, ...(values && { values }) });
  }
  return { onlyInA, onlyInB, different, sameCount };
}

const PIECE_VALUES = 2 ** 18;

async function compareValues(
  a: TensorReader,
  b: TensorReader,
  entryA: TensorEntry,
  entryB: TensorEntry,
  options: DifferenceOptions,
): Promise<ValueDifference | undefined> {
  if (isPacked(entryA.dtype) || isPacked(entryB.dtype)) return comparePacked(a, b, entryA, entryB);
  // Complex beside real: numbers that do not belong together.
  if (valuesPerElement(entryA.dtype) !== valuesPerElement(entryB.dtype)) return unlike(entryA);
  const gatherer = new DifferenceGatherer(options);
  const piecesB = readPieces(b, [entryB.name], { pieceBytes: pieceBytes(entryB) });
  try {
    for await (const pieceA of readPieces(a, [entryA.name], { pieceBytes: pieceBytes(entryA) })) {
      const pieceB = (await piecesB.next()).value!;
      if (entryA.dtype === entryB.dtype && isEqualBytes(pieceA.bytes, pieceB.bytes)) {
        gatherer.addEqual(entryA.dtype, pieceA.bytes);
      } else {
        gatherer.add(decodeValues(entryA.dtype, pieceA.bytes), decodeValues(entryB.dtype, pieceB.bytes));
      }
      options.onBytes?.(pieceA.bytes.byteLength, entryA.name);
    }
  } finally {
    await piecesB.return();
  }
  return gatherer.result();
}

/** The same number of elements on both sides, whatever their width. */
function pieceBytes(entry: TensorEntry): number {
  const elements = entry.shape.reduce((product, size) => product * size, 1);
  return PIECE_VALUES * (elements === 0 ? 1 : entry.sizeBytes / elements);
}

async function comparePacked(
  a: TensorReader,
  b: TensorReader,
  entryA: TensorEntry,
  entryB: TensorEntry,
): Promise<ValueDifference | undefined> {
  if (entryA.dtype !== entryB.dtype) return unlike(entryA);
  const piecesB = readPieces(b, [entryB.name]);
  let isEqual = true;
  for await (const { bytes } of readPieces(a, [entryA.name])) {
    isEqual &&= isEqualBytes(bytes, (await piecesB.next()).value!.bytes);
  }
  await piecesB.return();
  return isEqual ? undefined : unlike(entryA);
}

function unlike(entry: TensorEntry): ValueDifference {
  const count = entry.shape.reduce((product, size) => product * size, 1);
  return {
    changed: count,
    count,
    maxAbsolute: Number.NaN,
    maxRelative: Number.NaN,
    relativeNorm: Number.NaN,
  };
}

function isEqualBytes(a: Uint8Array, b: Uint8Array): boolean {
  return Buffer.compare(a, b) === 0;
}

class DifferenceGatherer {
  readonly #absolute: number;
  readonly #relative: number;
  #count = 0;
  #changed = 0;
  #maxAbsolute = 0;
  #maxRelative = 0;
  #squaresOfDifference = 0;
  #squaresOfB = 0;

  constructor({ absoluteTolerance = 0, relativeTolerance = 0 }: DifferenceOptions) {
    this.#absolute = absoluteTolerance;
    this.#relative = relativeTolerance;
  }

  addEqual(dtype: TensorEntry["dtype"], bytes: Uint8Array): void {
    const values = decodeValues(dtype, bytes);
    let squares = 0;
    for (let i = 0; i < values.length; i++) {
      const value = values[i]!;
      if (value - value === 0) squares += value * value;
    }
    this.#squaresOfB += squares;
    this.#count += values.length;
  }

  add(a: Values, b: Values): void {
    this.#count += a.length;
    for (let i = 0; i < a.length; i++) {
      const x = a[i]!;
      const y = b[i]!;
      if (y - y === 0) this.#squaresOfB += y * y;
      // NaN on both sides is no difference, nor is the same infinity.
      if (x === y || (Number.isNaN(x) && Number.isNaN(y))) continue;
      const distance = Math.abs(x - y);
      if (distance - distance !== 0) {
        this.#changed++;
        this.#maxAbsolute = Number.POSITIVE_INFINITY;
        this.#maxRelative = Number.POSITIVE_INFINITY;
        continue;
      }
      this.#squaresOfDifference += distance * distance;
      if (distance <= this.#absolute + this.#relative * Math.abs(y)) continue;
      this.#changed++;
      if (distance > this.#maxAbsolute) this.#maxAbsolute = distance;
      const relative = distance / Math.max(Math.abs(x), Math.abs(y));
      if (relative > this.#maxRelative) this.#maxRelative = relative;
    }
  }

  result(): ValueDifference | undefined {
    if (this.#changed === 0) return undefined;
    return {
      changed: this.#changed,
      count: this.#count,
      maxAbsolute: this.#maxAbsolute,
      maxRelative: this.#maxRelative,
      relativeNorm: Math.sqrt(this.#squaresOfDifference / this.#squaresOfB),
    };
  }
}
