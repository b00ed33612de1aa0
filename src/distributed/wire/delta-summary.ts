// What must be known of a delta before it is sent or counted: whether it moves anything, whether all of it is finite,
// and how long it is. Sums run in the canonical order of names and elements, so that every machine gets the same norm.

import { Lockstep } from "./lockstep.js";
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
  #sum = 0;
  #isZero = true;
  #firstNonFinite: string | undefined;
  #elementCount = 0;

  add(tensor: string, values: Float32Array): void {
    let sum = this.#sum;
    const before = sum;
    for (let i = 0; i < values.length; i++) {
      const value = values[i]!;
      sum += value * value;
    }
    // The square of the smallest float32 is far above the smallest double: only zeros leave a sum of zero as it is.
    if (this.#isZero && sum !== 0) this.#isZero = false;
    // A sum of squares of float32 cannot overflow a double by itself.
    if (this.#firstNonFinite === undefined && Number.isFinite(before) && !Number.isFinite(sum)) {
      this.#firstNonFinite = tensor;
    }
    this.#sum = sum;
    this.#elementCount += values.length;
  }

  get description(): DeltaDescription {
    return {
      norm: Math.sqrt(this.#sum),
      isZero: this.#isZero,
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
export async function describeDelta(delta: StateInput): Promise<DeltaDescription> {
  const reader = asReader(delta);
  const summary = new DeltaSummary();
  const lockstep = new Lockstep([reader]);
  for (const name of onlyRealEntries(reader, "the delta").keys()) {
    for await (const [values] of lockstep.pieces(name)) summary.add(name, values!);
  }
  return summary.description;
}
