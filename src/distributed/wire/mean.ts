// Deltas into one. Each element is added up in float32 in the order of the deltas and rounded after every operation:
// no vector units with other roundings, no partial sums, so that the same deltas give the same bits on any machine.

import type { TensorReader, TensorStream } from "../../formats/safetensors/index.js";
import { WireError } from "./errors.js";
import { Lockstep } from "./lockstep.js";
import { type OuterKernels, portableKernels } from "./outer-kernels.js";
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
  /** Who does the arithmetic; the bits are the same. Default: loops that run anywhere. */
  kernels?: OuterKernels | undefined;
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
  const kernels = options.kernels ?? portableKernels;
  const lockstep = new Lockstep(set.readers, kernels);
  return [...set.entries.values()].map(({ name, shape }) => ({
    name,
    dtype: "F32",
    shape,
    data: async function* () {
      for await (const values of lockstep.pieces(name)) {
        const out = new Float32Array(values[0]!.length);
        mergeInto(kernels, out, values, set.weights);
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
  kernels: OuterKernels,
  out: Float32Array,
  values: readonly Float32Array[],
  weights: Float32Array | undefined,
): void {
  if (weights === undefined) kernels.average(out, values);
  else kernels.addWeighted(out, values, weights);
}

function nameOf(reader: TensorReader, index: number): string {
  return fileOf(reader) ?? `delta ${index + 1}`;
}

function isFiniteFloat32(value: number): boolean {
  return Number.isFinite(Math.fround(value));
}
