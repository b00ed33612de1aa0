// The outer optimizer: SGD with Nesterov momentum over a whole model, as PyTorch does it (no dampening, no weight
// decay), streamed. Inputs are files or states in memory; outputs are new, nothing is changed in place.
//
//   buf = mu * buf + g,   eff = g + mu * buf,   state = state - lr * eff
//
// Momentum is float32 and rounds after each multiplication and addition. A float32 state takes the product and the
// sum with one rounding. Other states take `eff` and `lr` rounded to their own dtype, and round the result once; that
// is PyTorch's result but for the elements that do not fill a vector of its processor, where it rounds the product too.

import { readPieces, type TensorPiece, type TensorReader } from "../../formats/safetensors/index.js";
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
import { type BufferRules, freshWeights, mergeBuffer, policyOf } from "./buffer-merge.js";
import { WireError } from "./errors.js";
import { Lockstep, PIECE_ELEMENTS } from "./lockstep.js";
import { checkDeltas, type DeltaSet, type MergeOptions, mergeInto } from "./mean.js";
import { isAllFinite, type OuterKernels, portableKernels } from "./outer-kernels.js";
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
  /** Tensors that are no weights. Default: none. Their momentum is 0. */
  readonly buffers?: BufferRules | undefined;
}

/** A part of one tensor of the result. Its memory is used again once the next piece is asked for. */
export interface OuterPiece {
  readonly name: string;
  /** First element that it covers. */
  readonly begin: number;
  /** New state in its own dtype, little-endian. */
  readonly state: Uint8Array;
  /** New momentum. */
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
  return { entries, pieces: piecesOf(state, momentum, deltas, inputs) };
}

/** @throws WireError unless the buffers are F32, for exactly the tensors of `global`. */
export function checkMomentum(
  momentum: TensorReader,
  global: Parameters<typeof requireSameTensors>[0],
): void {
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
  { lr, mu, buffers, kernels = portableKernels }: OuterStepInputs,
): OuterStep["pieces"] {
  const lockstep = new Lockstep([...deltas.readers, ...(momentum === undefined ? [] : [momentum])], kernels);
  const count = deltas.readers.length;
  const roundedMu = Math.fround(mu);
  const { isFresh = [] } = buffers ?? {};
  const bufferWeights = freshWeights(isFresh, deltas.weights);
  return async function* (name) {
    const { dtype, sizeBytes } = state.entry(name);
    const width = WIDTHS[dtype as RealDtype];
    const policy = policyOf(buffers?.policies, name);
    const rate = policy === undefined ? lr : 1;
    const elements = Math.min(PIECE_ELEMENTS, sizeBytes / width);
    const memory = new Workspace(kernels);
    // `gradient` is the mean first, then the effective gradient.
    const [gradient, buffer] = [memory.take(4 * elements), memory.take(4 * elements)].map(floats);
    const [result, ...room] = [0, 1, 2].map(() => memory.take(width * elements));
    const states = readPieces(state, [name], { pieceBytes: PIECE_ELEMENTS * width, ahead: 1, buffers: room });
    try {
      let begin = 0;
      for await (const values of lockstep.pieces(name)) {
        const { length } = values[0]!;
        const [g, next] = [gradient!.subarray(0, length), buffer!.subarray(0, length)];
        const bytes = result!.subarray(0, width * length);
        const given = values.slice(0, count);
        let isMomentumFinite = true;
        if (policy === undefined) {
          mergeInto(kernels, g, given, deltas.weights);
          isMomentumFinite = kernels.advance(next, g, values[count], roundedMu);
        } else {
          mergeBuffer(kernels, g, given, { policy, isFresh, weights: bufferWeights });
          next.fill(0);
        }
        const old = (await states.next()).value as TensorPiece;
        const isStateFinite = UPDATES[dtype as RealDtype](kernels, bytes, old.bytes, g, rate);
        if (!isStateFinite || !isMomentumFinite) {
          const message = `the outer step would make values that are not finite (elements ${begin} to ${begin + length - 1}): leave out the delta that is not finite or too large`;
          throw new WireError("non_finite", message, { tensor: name });
        }
        yield { name, begin, state: bytes, momentum: next };
        begin += length;
      }
    } finally {
      await states.return();
      memory.close();
    }
  };
}

/** Memory for one tensor: near the kernels where they have some. */
class Workspace {
  readonly #kernels: OuterKernels;
  readonly #loans: Uint8Array<ArrayBuffer>[] = [];

  constructor(kernels: OuterKernels) {
    this.#kernels = kernels;
  }

  take(sizeBytes: number): Uint8Array<ArrayBuffer> {
    const loan = this.#kernels.take?.(sizeBytes);
    if (loan !== undefined) this.#loans.push(loan);
    return loan ?? new Uint8Array(sizeBytes);
  }

  close(): void {
    for (const loan of this.#loans.splice(0)) this.#kernels.give?.(loan);
  }
}

const floats = ({ buffer, byteOffset, byteLength }: Uint8Array<ArrayBufferLike>) =>
  new Float32Array(buffer, byteOffset, byteLength / 4);

const WIDTHS: Readonly<Record<RealDtype, number>> = { F64: 8, F32: 4, F16: 2, BF16: 2 };

type Update = (
  kernels: OuterKernels,
  out: Uint8Array<ArrayBuffer>,
  state: Uint8Array,
  eff: Float32Array,
  lr: number,
) => boolean;

/** `out` becomes the state minus lr * eff, in bytes; false when it is not finite. Memory is aligned. */
const UPDATES: Readonly<Record<RealDtype, Update>> = {
  F32: (kernels, out, state, eff, lr) =>
    kernels.subtractScaled(floats(out), floats(state), eff, Math.fround(lr)),
  F64: (_kernels, out, bytes, eff, lr) => {
    out.set(bytes);
    const state = new Float64Array(out.buffer, out.byteOffset, eff.length);
    for (let i = 0; i < state.length; i++) state[i] = state[i]! - lr * eff[i]!;
    return isAllFinite(state);
  },
  F16: (kernels, out, bytes, eff, lr) => {
    const state = halves(out, bytes);
    const wide = decodeFloat16(state);
    const rate = float16ToFloat32(float32ToFloat16(lr));
    kernels.subtractScaled(wide, wide, decodeFloat16(encodeFloat16(eff)), rate);
    encodeFloat16(wide, state);
    return isAllFinite(decodeFloat16(state));
  },
  BF16: (kernels, out, bytes, eff, lr) => {
    const state = halves(out, bytes);
    const wide = decodeBfloat16(state);
    const rate = bfloat16ToFloat32(float32ToBfloat16(lr));
    kernels.subtractScaled(wide, wide, decodeBfloat16(encodeBfloat16(eff)), rate);
    encodeBfloat16(wide, state);
    return isAllFinite(decodeBfloat16(state));
  },
};

function halves(out: Uint8Array<ArrayBuffer>, bytes: Uint8Array): Uint16Array<ArrayBuffer> {
  out.set(bytes);
  return new Uint16Array(out.buffer, out.byteOffset, out.byteLength / 2);
}
