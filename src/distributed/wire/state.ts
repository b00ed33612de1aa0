// States as the delta functions take them: a file being read, or tensors in memory by name. Says which tensors count as
// floating, and compares tables of names and shapes before any data is read.

import { toStream } from "../../formats/safetensors/container.js";
import type {
  SafetensorsDtype,
  StateValue,
  TensorEntry,
  TensorReader,
} from "../../formats/safetensors/index.js";
import { WireError } from "./errors.js";
import { MemoryReader } from "./memory-reader.js";
import { compareCodePoints } from "./order.js";

/** A state: a reader (nothing is loaded ahead), or tensors in memory, which must not change until the work is done. */
export type StateInput = TensorReader | ReadonlyMap<string, StateValue>;

/** Dtypes whose values the delta arithmetic handles. */
export type RealDtype = "F64" | "F32" | "F16" | "BF16";

export interface RealEntry extends TensorEntry {
  readonly dtype: RealDtype;
}

const REAL: ReadonlySet<string> = new Set<RealDtype>(["F64", "F32", "F16", "BF16"]);
/** Integers and booleans; everything else of the format is floating or complex. */
const WHOLE: ReadonlySet<string> = new Set<SafetensorsDtype>([
  "U64",
  "I64",
  "U32",
  "I32",
  "U16",
  "I16",
  "U8",
  "I8",
  "BOOL",
]);
const NAMES_SHOWN = 8;

/** Whether tensors of this dtype belong into deltas: real or complex floating numbers of any width. */
export function isFloatingDtype(dtype: SafetensorsDtype): boolean {
  return !WHOLE.has(dtype);
}

/** The floating (and complex) tensors of a state, in its order. Tensors themselves are not copied. */
export function floatingState<V extends StateValue>(state: ReadonlyMap<string, V>): Map<string, V> {
  return new Map([...state].filter(([name, value]) => isFloatingDtype(toStream(name, value).dtype)));
}

/**
 * The floating tensors of a file, by name in canonical order.
 * @throws WireError `wire.unsupported_dtype` for complex numbers and floats of 8 bits or less.
 */
export function realEntries(reader: TensorReader, what: string): Map<string, RealEntry> {
  const found = new Map<string, RealEntry>();
  for (const name of sortedNames(reader)) {
    const entry = reader.entry(name);
    if (isReal(entry)) found.set(name, entry);
    else if (isFloatingDtype(entry.dtype)) {
      const kind = entry.dtype === "C64" ? "complex" : `${entry.dtype} (8 bits or less)`;
      const message = `${what} is ${kind}, which has no outer update: convert the model to float32, float16 or bfloat16`;
      throw new WireError("unsupported_dtype", message, { file: fileOf(reader), tensor: name });
    }
  }
  return found;
}

/**
 * {@link realEntries} of a file that may hold nothing else.
 * @throws WireError `wire.unsupported_dtype`.
 */
export function onlyRealEntries(reader: TensorReader, what: string): Map<string, RealEntry> {
  const real = realEntries(reader, what);
  for (const { name, dtype } of reader.entries.values()) {
    if (real.has(name)) continue;
    const message = `${what} is ${dtype}; only floating tensors belong here`;
    throw new WireError("unsupported_dtype", message, { file: fileOf(reader), tensor: name });
  }
  return real;
}

/** A side of a comparison: its tensors, and what to call it. */
export interface Table {
  readonly name: string;
  readonly entries: ReadonlyMap<string, TensorEntry>;
  readonly file?: string | undefined;
}

/** @throws WireError `wire.key_mismatch` or `wire.shape_mismatch` unless both have the same names with the same shapes. */
export function requireSameTensors(a: Table, b: Table): void {
  const missingB = [...a.entries.keys()].filter((name) => !b.entries.has(name));
  const missingA = [...b.entries.keys()].filter((name) => !a.entries.has(name));
  const file = b.file ?? a.file;
  if (missingA.length + missingB.length > 0) {
    const sides = [
      ...(missingA.length === 0 ? [] : [`${a.name} lacks ${list(missingA)}`]),
      ...(missingB.length === 0 ? [] : [`${b.name} lacks ${list(missingB)}`]),
    ];
    throw new WireError("key_mismatch", `the tensors differ: ${sides.join("; ")}`, { file });
  }
  for (const [name, { shape }] of a.entries) {
    const other = b.entries.get(name)!.shape;
    if (shape.length === other.length && shape.every((size, i) => size === other[i])) continue;
    const message = `shape [${shape.join(", ")}] in ${a.name}, [${other.join(", ")}] in ${b.name}`;
    throw new WireError("shape_mismatch", message, { file, tensor: name });
  }
}

/** `state` as a reader. Tensors in memory are used where they are; only host float16 is narrowed into a copy. */
export function asReader(state: StateInput): TensorReader {
  return "readRange" in state ? state : new MemoryReader(state);
}

/** Where a reader's bytes come from, where it knows. */
export function fileOf(reader: TensorReader): string | undefined {
  return "file" in reader && typeof reader.file === "string" ? reader.file : undefined;
}

export function sortedNames(reader: TensorReader): string[] {
  return [...reader.entries.keys()].sort(compareCodePoints);
}

function isReal(entry: TensorEntry): entry is RealEntry {
  return REAL.has(entry.dtype);
}

function list(names: readonly string[]): string {
  const shown = names
    .toSorted(compareCodePoints)
    .slice(0, NAMES_SHOWN)
    .map((name) => JSON.stringify(name));
  const rest = names.length - shown.length;
  return shown.join(", ") + (rest === 0 ? "" : ` and ${rest} more`);
}
