// Rotary positions: tables of cosines and sines as plain float32 numbers, outside any gradient. Half-split
// pairing (feature j with j + width/2), not interleaved.

import { constant, gather, type Tensor, type TensorData } from "../../tensor/index.js";
import { ModelError } from "../../util/errors.js";
import { type RotaryScaling, scaleFrequency } from "./rotary-scaling.js";
import { requireSize } from "./sizes.js";

/** Cosines and sines, each [positions, head width / 2]; or [T, B, 1, head width / 2], where each position has its own. */
export interface RotaryRows {
  readonly cos: Tensor;
  readonly sin: Tensor;
}

export class RotaryTable {
  readonly #cos: Float32Array;
  readonly #sin: Float32Array;
  readonly #half: number;
  readonly positions: number;

  /** Angles t · base^(−2j/headWidth), scaled, for t < positions, every step rounded to float32. */
  constructor(positions: number, headWidth: number, base: number, scaling: RotaryScaling | null = null) {
    requireSize("RotaryTable", "positions", positions);
    requireSize("RotaryTable", "head width", headWidth);
    if (headWidth % 2 !== 0)
      throw new ModelError(`the head width ${headWidth} is odd: rotary positions need an even one`, {
        code: "model.head_width",
        details: { headWidth },
      });
    if (!(base > 0))
      throw new ModelError(`the rotary base must be positive, got ${base}`, { code: "model.rope_base" });
    this.positions = positions;
    this.#half = headWidth / 2;
    this.#cos = new Float32Array(positions * this.#half);
    this.#sin = new Float32Array(positions * this.#half);
    for (let j = 0; j < this.#half; j++) {
      const frequency = Math.fround(scaleFrequency(base ** ((-2 * j) / headWidth), scaling));
      for (let t = 0; t < positions; t++) {
        const angle = Math.fround(t * frequency);
        this.#cos[t * this.#half + j] = Math.cos(angle);
        this.#sin[t * this.#half + j] = Math.sin(angle);
      }
    }
  }

  /** Positions 0 … count−1 as constants. */
  rows(count: number): RotaryRows {
    const part = (values: Float32Array): TensorData => ({
      dtype: "float32",
      shape: [count, this.#half],
      // A copy of its own: a view would drag the whole table along to a worker.
      data: values.slice(0, count * this.#half),
    });
    return { cos: constant(part(this.#cos)), sin: constant(part(this.#sin)) };
  }

  /** The row of one position, int32 [1], that is known only when the graph runs. */
  rowAt(position: Tensor): RotaryRows {
    const { cos, sin } = this.rows(this.positions);
    return { cos: gather(cos, position, 0), sin: gather(sin, position, 0) };
  }
}
