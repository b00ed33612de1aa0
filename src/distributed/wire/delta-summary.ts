// What must be known of a delta before it is sent or counted: whether it moves anything, whether all of it is finite,
// and how long it is. Squares are added up in the canonical order of names and elements, the one at position p into sum
// p mod 8, so that every machine gets the same norm.

import { Lockstep } from "./lockstep.js";
import type { MergeOptions } from "./mean.js";
import { type OuterKernels, portableKernels, SQUARE_LANES } from "./outer-kernels.js";
import { asReader, onlyRealEntries, type StateInput } from "./state.js";

/** Figures of a delta. */
export interface DeltaDescription {
  /** Euclidean norm over all elements, in double precision; NaN or infinite unless the delta is finite. */
  readonly norm: number;
  /** Every element is 0 or -0 (also when there is none): nothing was learned, sending it would only dilute a mean. */
  readonly isZero: boolean;
  /** No NaN, no infinity, and nothing that overflows float32. */
  readonly isFinite: boolean;
  /** First tensor with an element that is not finite. */
  readonly firstNonFinite: string | undefined;
  readonly elementCount: number;
}

/** Gathers a {@link DeltaDescription} while the values pass by. */
export class DeltaSummary {
  readonly #kernels: OuterKernels;
  readonly #lanes = new Float64Array(SQUARE_LANES);
  #sum = 0;
  #firstNonFinite: string | undefined;
  #elementCount = 0;

  constructor(kernels: OuterKernels = portableKernels) {
    this.#kernels = kernels;
  }

  add(tensor: string, values: Float32Array): void {
    this.#kernels.addSquares(this.#lanes, values, this.#elementCount % SQUARE_LANES);
    this.#sum = this.#lanes.reduce((total, lane) => total + lane, 0);
    // A sum of squares of float32 cannot overflow a double by itself.
    if (this.#firstNonFinite === undefined && !Number.isFinite(this.#sum)) this.#firstNonFinite = tensor;
    this.#elementCount += values.length;
  }

  get description(): DeltaDescription {
    return {
      norm: Math.sqrt(this.#sum),
      // The square of the smallest float32 is far above the smallest double: only zeros leave a sum of zero as it is.
      isZero: this.#sum === 0,
      isFinite: Number.isFinite(this.#sum),
      firstNonFinite: this.#firstNonFinite,
      elementCount: this.#elementCount,
    };
  }
}

/**
 * Reads a whole delta and describes it.
 * @throws WireError `wire.unsupported_dtype`; errors of the reader pass through.
 */
export async function describeDelta(
  delta: StateInput,
  { kernels = portableKernels }: Pick<MergeOptions, "kernels"> = {},
): Promise<DeltaDescription> {
  const reader = asReader(delta);
  const summary = new DeltaSummary(kernels);
  const lockstep = new Lockstep([reader], kernels);
  for (const name of onlyRealEntries(reader, "the delta").keys()) {
    for await (const [values] of lockstep.pieces(name)) summary.add(name, values!);
  }
  return summary.description;
}
