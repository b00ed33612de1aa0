// A node's delta: how far its weights moved since the baseline, as a gradient for the outer optimizer. Positive means
// that the weight went down; the outer step subtracts it.

import type { TensorStream } from "../../formats/safetensors/index.js";
import type { DeltaSummary } from "./delta-summary.js";
import { Lockstep } from "./lockstep.js";
import { asReader, fileOf, realEntries, requireSameTensors, type StateInput } from "./state.js";

export interface PseudoGradientOptions {
  /** Is told every value on its way, for a description without a second reading. */
  summary?: DeltaSummary;
}

/**
 * float32(baseline) - float32(current) for every floating tensor, as F32 streams in canonical order; others are left
 * out. Names and shapes are checked now, values are read and computed when a stream's turn comes. Both states must
 * stay open and unchanged until then, and the streams be consumed one after the other, once.
 * @throws WireError `wire.key_mismatch`, `wire.shape_mismatch` (also for tensors that are not floating),
 *   `wire.unsupported_dtype`.
 */
export function computePseudoGradient(
  baseline: StateInput,
  current: StateInput,
  { summary }: PseudoGradientOptions = {},
): TensorStream[] {
  const readers = [asReader(baseline), asReader(current)] as const;
  const [from, to] = readers;
  requireSameTensors(
    { name: "the baseline", entries: from.entries },
    { name: "the current state", entries: to.entries, file: fileOf(to) },
  );
  const names = realEntries(from, "the baseline");
  const others = realEntries(to, "the current state");
  requireSameTensors(
    { name: "the baseline's floating part", entries: names },
    { name: "the current state's floating part", entries: others },
  );
  const lockstep = new Lockstep(readers);
  return [...names.values()].map(({ name, shape }) => ({
    name,
    dtype: "F32",
    shape,
    data: async function* () {
      for await (const [a, b] of lockstep.pieces(name)) {
        const out = subtract(a!, b!);
        summary?.add(name, out);
        yield new Uint8Array(out.buffer);
      }
    },
  }));
}

function subtract(a: Float32Array, b: Float32Array): Float32Array {
  const out = new Float32Array(a.length);
  // Storing rounds the exact difference once, as float32 arithmetic does.
  for (let i = 0; i < out.length; i++) out[i] = a[i]! - b[i]!;
  return out;
}
