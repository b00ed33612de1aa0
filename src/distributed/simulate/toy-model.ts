// The trainer of a simulation: a model whose weights tell which local steps are in them. Every local step of the whole
// fleet has a place of its own in `steps` and adds 1 there, which float32 keeps exactly; `drift` moves by numbers that
// round, so that the arithmetic is looked at as well.

import type { TensorData } from "../../tensor/dtype.js";
import type { ModelState } from "../node/model-state.js";
import type { LocalModel } from "../node/worker-driver.js";
import type { RandomStream } from "./random.js";

export const STEPS = "steps";
export const DRIFT = "drift";
const DRIFT_SIZE = 8;

export interface ToyWeights {
  readonly steps: Float32Array;
  readonly drift: Float32Array;
  readonly count: Int32Array;
}

export function initialWeights(places: number): ToyWeights {
  return {
    steps: new Float32Array(places),
    drift: Float32Array.from({ length: DRIFT_SIZE }, (_, i) => (i - 3) / 7),
    count: Int32Array.of(7),
  };
}

export class ToyModel implements LocalModel {
  readonly weights: ToyWeights;

  constructor({ steps, drift, count }: ToyWeights) {
    this.weights = { steps: steps.slice(), drift: drift.slice(), count: count.slice() };
  }

  /** A local step. */
  train(place: number, random: RandomStream): void {
    const { steps, drift } = this.weights;
    steps[place]! += 1;
    for (let i = 0; i < drift.length; i++) drift[i]! += random.between(-0.02, 0.03);
  }

  async readState(): Promise<Map<string, TensorData>> {
    return toState(this.weights);
  }

  async writeState(values: ModelState): Promise<void> {
    const { steps, drift, count } = this.weights;
    steps.set(values.get(STEPS)!.data as Float32Array);
    drift.set(values.get(DRIFT)!.data as Float32Array);
    count.set(values.get("count")!.data as Int32Array);
  }

  copy(): ToyWeights {
    const { steps, drift, count } = this.weights;
    return { steps: steps.slice(), drift: drift.slice(), count: count.slice() };
  }
}

/** `head` is tied to `drift`. */
export function toState({ steps, drift, count }: ToyWeights): Map<string, TensorData> {
  const tied: TensorData = { dtype: "float32", shape: [DRIFT_SIZE / 2, 2], data: drift.slice() };
  return new Map<string, TensorData>([
    [DRIFT, tied],
    ["head", tied],
    [STEPS, { dtype: "float32", shape: [steps.length], data: steps.slice() }],
    ["count", { dtype: "int32", shape: [1], data: count.slice() }],
  ]);
}
