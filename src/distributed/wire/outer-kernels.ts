// The arithmetic of the outer step over float32 arrays, as an interface: portable loops here, which say what the right
// bits are, and WebAssembly (wasm-kernels.ts) with the same bits. Every operation rounds to float32 and runs in a fixed
// order, so that the same deltas give the same bits on any machine.

/** Loops over pieces. Arrays of one call have one length; results go to arrays that are none of the inputs. */
export interface OuterKernels {
  /** Memory in which values need not be copied before the work; undefined when there is none left. */
  take?(sizeBytes: number): Uint8Array<ArrayBuffer> | undefined;
  /** Gives back what {@link take} returned. */
  give?(memory: Uint8Array<ArrayBuffer>): void;
  /** `out` becomes the mean of `values`, in their order. */
  average(out: Float32Array, values: readonly Float32Array[]): void;
  /** `out` becomes the sum of weight × value, in their order. */
  addWeighted(out: Float32Array, values: readonly Float32Array[], weights: Float32Array): void;
  /**
   * `buffer` becomes mu × previous + g, `g` becomes g + mu × buffer. Without `previous` it is zeros. `mu` is a float32.
   * Returns whether all of `buffer` is finite.
   */
  advance(buffer: Float32Array, g: Float32Array, previous: Float32Array | undefined, mu: number): boolean;
  /**
   * `out` (which may be `state`) becomes state - lr × eff, product and difference with one rounding to double each.
   * `lr` is a float32. Returns whether all of `out` is finite.
   */
  subtractScaled(out: Float32Array, state: Float32Array, eff: Float32Array, lr: number): boolean;
  /** Adds squares to `lanes`: value i goes to lane (phase + i) mod 8. */
  addSquares(lanes: Float64Array, values: Float32Array, phase: number): void;
}

/** Partial sums of {@link OuterKernels.addSquares}. */
export const SQUARE_LANES = 8;

// Stores round to float32. Each loop has a function of its own, which is compiled for exactly its types.

/** Plain TypeScript: runs anywhere, and is what other kernels are tested against. */
export const portableKernels: OuterKernels = {
  average(out, values) {
    out.fill(0);
    let d = 0;
    for (; d + 4 <= values.length; d += 4) {
      addFour(out, values[d]!, values[d + 1]!, values[d + 2]!, values[d + 3]!);
    }
    for (; d < values.length; d++) add(out, values[d]!);
    if (values.length > 1) divide(out, values.length);
  },
  addWeighted(out, values, weights) {
    out.fill(0);
    for (let d = 0; d < values.length; d++) addScaled(out, values[d]!, weights[d]!);
  },
  advance(buffer, g, previous, mu) {
    for (let i = 0; i < g.length; i++) {
      const gradient = g[i]!;
      const old = previous === undefined ? 0 : previous[i]!;
      const next = Math.fround(Math.fround(mu * old) + gradient);
      buffer[i] = next;
      g[i] = gradient + Math.fround(mu * next);
    }
    return isAllFinite(buffer);
  },
  subtractScaled(out, state, eff, lr) {
    // The product of two float32 is exact in double; the difference rounds to double and, when stored, to float32.
    for (let i = 0; i < state.length; i++) out[i] = state[i]! - lr * eff[i]!;
    return isAllFinite(out);
  },
  addSquares(lanes, values, phase) {
    for (let i = 0; i < values.length; i++) {
      const value = values[i]!;
      lanes[(phase + i) & (SQUARE_LANES - 1)]! += value * value;
    }
  },
};

export function isAllFinite(values: Float32Array | Float64Array): boolean {
  let sum = 0;
  // x - x is 0 for finite x, NaN otherwise.
  for (let i = 0; i < values.length; i++) sum += values[i]! - values[i]!;
  return sum === 0;
}

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
