// Deltas into one. Each element is added up in float32 in the order of the deltas and rounded after every operation:
// no vector units with other roundings, no partial sums, so that the same deltas give the same bits on any machine.

import type { TensorReader, TensorStream } from "../../formats/safetensors/index.js";
import { WireError } from "./errors.js";
import { Lockstep } from "./lockstep.js";
import {
  asReader,
  fileOf,
  onlyRealEntries,
  type RealEntry,
  requireSameTensors,
  type StateInput,
} from "./state.js";

/** How deltas become one. */
export interface MergeOptions {
  /**
   * One finite number per delta; the result is the sum of weight × delta (they are rounded to float32, and not made
   * to add up to 1). Without weights it is the Python master's mean, bit for bit: sum, then division by the count.
   */
  weights?: readonly number[] | undefined;
}

/** Checked deltas: readers with equal tables. */
export interface DeltaSet {
  readonly readers: readonly TensorReader[];
  /** By name in canonical order; shapes are those of the first delta. */
  readonly entries: ReadonlyMap<string, RealEntry>;
  /** Float32 values. */
  readonly weights: Float32Array | undefined;
}

/**
 * The mean (or weighted sum) of deltas, as F32 streams in canonical order; values are read and computed when a
 * stream's turn comes. The order of `deltas` decides the last bits: sort them by `compareDeltaPaths`. Values that are
 * not finite are not looked for: `describeDelta` comes first, `outerStep` checks what it makes of them.
 * @throws WireError `wire.no_deltas`, `wire.key_mismatch`, `wire.shape_mismatch`, `wire.unsupported_dtype`,
 *   `wire.invalid_setting`.
 */
export function averageDeltas(deltas: readonly StateInput[], options: MergeOptions = {}): TensorStream[] {
  const set = checkDeltas(deltas, options);
  const lockstep = new Lockstep(set.readers);
  return [...set.entries.values()].map(({ name, shape }) => ({
    name,
    dtype: "F32",
    shape,
    data: async function* () {
      for await (const values of lockstep.pieces(name)) {
        const out = new Float32Array(values[0]!.length);
        mergeInto(out, values, set.weights);
        yield new Uint8Array(out.buffer);
      }
    },
  }));
}

/** The checks of {@link averageDeltas}. */
export function checkDeltas(deltas: readonly StateInput[], { weights }: MergeOptions): DeltaSet {
  if (deltas.length === 0)
    throw new WireError("no_deltas", "there is no delta to average; pass at least one");
  if (weights !== undefined && (weights.length !== deltas.length || !weights.every(isFiniteFloat32))) {
    const message = `weights must be ${deltas.length} finite numbers, one per delta; got [${weights.slice(0, 8).join(", ")}]`;
    throw new WireError("invalid_setting", message);
  }
  const readers = deltas.map(asReader);
  const tables = readers.map((reader, i) => ({
    name: nameOf(reader, i),
    entries: onlyRealEntries(reader, "the delta"),
    file: fileOf(reader),
  }));
  const first = tables[0]!;
  for (const table of tables.slice(1)) requireSameTensors(first, table);
  return { readers, entries: first.entries, weights: weights && Float32Array.from(weights) };
}

/** One piece: `out` becomes the mean of `values`, or their sum with weights. `out` is none of `values`. */
export function mergeInto(
  out: Float32Array,
  values: readonly Float32Array[],
  weights: Float32Array | undefined,
): void {
  out.fill(0);
  if (weights !== undefined) {
    for (let d = 0; d < values.length; d++) addScaled(out, values[d]!, weights[d]!);
    return;
  }
  let d = 0;
  for (; d + 4 <= values.length; d += 4) {
    addFour(out, values[d]!, values[d + 1]!, values[d + 2]!, values[d + 3]!);
  }
  for (; d < values.length; d++) add(out, values[d]!);
  if (values.length > 1) divide(out, values.length);
}

// Stores round to float32. Each loop has a function of its own, which is compiled for exactly its types.

function add(out: Float32Array, delta: Float32Array): void {
  for (let i = 0; i < out.length; i++) out[i] = out[i]! + delta[i]!;
}

/** Four times {@link add} in one pass: the same roundings in the same order, half the time. */
function addFour(
  out: Float32Array,
  a: Float32Array,
  b: Float32Array,
  c: Float32Array,
  d: Float32Array,
): void {
  const round = Math.fround;
  for (let i = 0; i < out.length; i++) {
    out[i] = round(round(round(out[i]! + a[i]!) + b[i]!) + c[i]!) + d[i]!;
  }
}

/** The product of two float32 is exact in double, so that it is rounded once. */
function addScaled(out: Float32Array, delta: Float32Array, weight: number): void {
  for (let i = 0; i < out.length; i++) out[i] = out[i]! + Math.fround(weight * delta[i]!);
}

function divide(out: Float32Array, count: number): void {
  for (let i = 0; i < out.length; i++) out[i] = out[i]! / count;
}

function nameOf(reader: TensorReader, index: number): string {
  return fileOf(reader) ?? `delta ${index + 1}`;
}

function isFiniteFloat32(value: number): boolean {
  return Number.isFinite(Math.fround(value));
}
