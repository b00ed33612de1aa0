// The outer optimizer: SGD with Nesterov momentum over a whole model, as PyTorch does it (no dampening, no weight
// decay), streamed. Inputs are files or states in memory; outputs are new, nothing is changed in place.
//
//   buf = mu * buf + g,   eff = g + mu * buf,   state = state - lr * eff
//
// Momentum is float32 and rounds after each multiplication and addition. A float32 state takes the product and the
// sum with one rounding. Other states take `eff` and `lr` rounded to their own dtype, and round the result once; that
// is PyTorch's result but for the elements that do not fill a vector of its processor, where it rounds the product too.

import type { TensorReader } from "../../formats/safetensors/index.js";
import {
  bfloat16ToFloat32,
  decodeBfloat16,
  decodeFloat16,
  encodeBfloat16,
  encodeFloat16,
  float16ToFloat32,
  float32ToBfloat16,
  float32ToFloat16,
} from "../../util/half.js";
import { WireError } from "./errors.js";
import { Lockstep } from "./lockstep.js";
import { checkDeltas, type DeltaSet, type MergeOptions, mergeInto } from "./mean.js";
import {
  asReader,
  fileOf,
  onlyRealEntries,
  type RealDtype,
  type RealEntry,
  realEntries,
  requireSameTensors,
  type StateInput,
} from "./state.js";

export interface OuterStepInputs extends MergeOptions {
  /** The global state. Tensors that are not floating take no part. */
  readonly state: StateInput;
  /** F32 buffers of the previous step for exactly the floating tensors; left out before the first step (zeros). */
  readonly momentum?: StateInput | undefined;
  /** At least one; added up in this order (see `averageDeltas`). */
  readonly deltas: readonly StateInput[];
  /** Outer learning rate, finite and above 0. */
  readonly lr: number;
  /** Nesterov momentum, from 0 to below 1. */
  readonly mu: number;
}

/** A part of one tensor of the result. */
export interface OuterPiece {
  readonly name: string;
  /** First element that it covers. */
  readonly begin: number;
  /** New state in its own dtype, little-endian. The memory is the receiver's. */
  readonly state: Uint8Array;
  /** New momentum. The memory is the receiver's. */
  readonly momentum: Float32Array;
}

/** An outer step whose inputs fit together. */
export interface OuterStep {
  /** Floating tensors of the state, by name in canonical order. */
  readonly entries: ReadonlyMap<string, RealEntry>;
  /**
   * The result for one tensor, piece by piece. Tensors may be asked for in any order, one after the other.
   * @throws WireError `wire.non_finite` when the new state or momentum would not be finite.
   */
  pieces(name: string): AsyncGenerator<OuterPiece, void, undefined>;
}

/**
 * Checks names, shapes, dtypes and settings; values are read when pieces are asked for.
 * @throws WireError `wire.no_deltas`, `wire.key_mismatch`, `wire.shape_mismatch`, `wire.unsupported_dtype`,
 *   `wire.invalid_setting`.
 */
export function outerStep(inputs: OuterStepInputs): OuterStep {
  const { lr, mu } = inputs;
  if (!(lr > 0 && Number.isFinite(Math.fround(lr)))) {
    throw new WireError("invalid_setting", `the outer learning rate must be finite and above 0, is ${lr}`);
  }
  if (!(mu >= 0 && mu < 1)) {
    throw new WireError("invalid_setting", `the outer momentum must be at least 0 and below 1, is ${mu}`);
  }
  const state = asReader(inputs.state);
  const entries = realEntries(state, "the global state");
  const global = { name: "the global state", entries };
  const deltas = checkDeltas(inputs.deltas, inputs);
  requireSameTensors(global, {
    name: "the delta",
    entries: deltas.entries,
    file: fileOf(deltas.readers[0]!),
  });
  const momentum = inputs.momentum === undefined ? undefined : asReader(inputs.momentum);
  if (momentum !== undefined) checkMomentum(momentum, global);
  return { entries, pieces: piecesOf(state, momentum, deltas, Math.fround(mu), lr) };
}

function checkMomentum(momentum: TensorReader, global: Parameters<typeof requireSameTensors>[0]): void {
  const entries = onlyRealEntries(momentum, "the momentum");
  requireSameTensors(global, { name: "the momentum", entries, file: fileOf(momentum) });
  for (const { name, dtype } of entries.values()) {
    if (dtype === "F32") continue;
    const fields = { file: fileOf(momentum), tensor: name };
    throw new WireError("unsupported_dtype", `momentum must be F32, is ${dtype}`, fields);
  }
}

function piecesOf(
  state: TensorReader,
  momentum: TensorReader | undefined,
  deltas: DeltaSet,
  mu: number,
  lr: number,
): OuterStep["pieces"] {
  const lockstep = new Lockstep([...deltas.readers, ...(momentum === undefined ? [] : [momentum])]);
  const states = new StateWalk(state);
  const count = deltas.readers.length;
  return async function* (name) {
    const { dtype } = state.entry(name);
    let begin = 0;
    for await (const values of lockstep.pieces(name)) {
      const mean = new Float32Array(values[0]!.length);
      mergeInto(mean, values.slice(0, count), deltas.weights);
      const buffer = new Float32Array(mean.length);
      // From here on `mean` holds the effective gradient.
      advance(buffer, mean, values[count], mu);
      const bytes = await states.read(name, begin, mean.length);
      const isSound = UPDATES[dtype as RealDtype](bytes, mean, lr) && isAllFinite(buffer);
      if (!isSound) {
        const message = `the outer step would make values that are not finite (elements ${begin} to ${begin + mean.length - 1}): leave out the delta that is not finite or too large`;
        throw new WireError("non_finite", message, { tensor: name });
      }
      yield { name, begin, state: bytes, momentum: buffer };
      begin += mean.length;
    }
  };
}

/** Reads parts of the state into fresh memory, which the update then writes to. */
class StateWalk {
  readonly #reader: TensorReader;

  constructor(reader: TensorReader) {
    this.#reader = reader;
  }

  async read(name: string, begin: number, count: number): Promise<Uint8Array<ArrayBuffer>> {
    const width = WIDTHS[this.#reader.entry(name).dtype as RealDtype];
    const [from, to] = [begin * width, (begin + count) * width];
    const target = new Uint8Array(to - from);
    if (this.#reader.readRangeInto === undefined) target.set(await this.#reader.readRange(name, from, to));
    else await this.#reader.readRangeInto(name, from, target);
    return target;
  }
}

const WIDTHS: Readonly<Record<RealDtype, number>> = { F64: 8, F32: 4, F16: 2, BF16: 2 };

/** `buffer` becomes mu * previous + g, `g` becomes g + mu * buffer. Every operation rounds to float32. */
function advance(
  buffer: Float32Array,
  g: Float32Array,
  previous: Float32Array | undefined,
  mu: number,
): void {
  for (let i = 0; i < g.length; i++) {
    const gradient = g[i]!;
    const old = previous === undefined ? 0 : previous[i]!;
    const next = Math.fround(Math.fround(mu * old) + gradient);
    buffer[i] = next;
    g[i] = gradient + Math.fround(mu * next);
  }
}

/** Subtracts lr * eff from the state's bytes in place; false when the result is not finite. Memory is aligned. */
const UPDATES: Readonly<
  Record<RealDtype, (state: Uint8Array<ArrayBuffer>, eff: Float32Array, lr: number) => boolean>
> = {
  F32: ({ buffer }, eff, lr) => {
    const state = new Float32Array(buffer);
    subtractScaled(state, eff, Math.fround(lr));
    return isAllFinite(state);
  },
  F64: ({ buffer }, eff, lr) => {
    const state = new Float64Array(buffer);
    for (let i = 0; i < state.length; i++) state[i] = state[i]! - lr * eff[i]!;
    return isAllFinite(state);
  },
  F16: ({ buffer }, eff, lr) => {
    const state = new Uint16Array(buffer);
    const wide = decodeFloat16(state);
    subtractScaled(wide, decodeFloat16(encodeFloat16(eff)), float16ToFloat32(float32ToFloat16(lr)));
    encodeFloat16(wide, state);
    return isAllFinite(decodeFloat16(state));
  },
  BF16: ({ buffer }, eff, lr) => {
    const state = new Uint16Array(buffer);
    const wide = decodeBfloat16(state);
    subtractScaled(wide, decodeBfloat16(encodeBfloat16(eff)), bfloat16ToFloat32(float32ToBfloat16(lr)));
    encodeBfloat16(wide, state);
    return isAllFinite(decodeBfloat16(state));
  },
};

/** The product of two float32 is exact in double; the difference rounds to double and, when stored, to float32. */
function subtractScaled(state: Float32Array, eff: Float32Array, lr: number): void {
  for (let i = 0; i < state.length; i++) state[i] = state[i]! - lr * eff[i]!;
}

function isAllFinite(values: Float32Array | Float64Array): boolean {
  let sum = 0;
  // x - x is 0 for finite x, NaN otherwise.
  for (let i = 0; i < values.length; i++) sum += values[i]! - values[i]!;
  return sum === 0;
}
