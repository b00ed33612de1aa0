// Small tensors, the weights of the golden vectors, and errors as values.

import { initialize, type Module, ReferenceTransformer } from "../../src/nn/index.js";
import { constant, evaluate, type Feeds, type Tensor, type TensorData } from "../../src/tensor/index.js";

export function int32(rows: readonly (readonly number[])[]): Tensor {
  return constant({
    dtype: "int32",
    shape: [rows.length, rows[0]?.length ?? 0],
    data: Int32Array.from(rows.flat()),
  });
}

export function bool(rows: readonly (readonly number[])[]): Tensor {
  return constant({
    dtype: "bool",
    shape: [rows.length, rows[0]?.length ?? 0],
    data: Uint8Array.from(rows.flat()),
  });
}

export function float32(shape: readonly number[], values: ArrayLike<number>): TensorData {
  return { dtype: "float32", shape, data: Float32Array.from(values) };
}

export function valuesOf(tensor: Tensor, feeds?: Feeds): number[] {
  return Array.from(evaluate(tensor, feeds).data);
}

/** The generator state that dropout reads. */
export function rng(seed: number, step: number): Feeds {
  return { rng: { dtype: "int32", shape: [2], data: Int32Array.of(seed, step) } };
}

/** Tensor t, element i: 0.3·sin(1.3i + 0.7t + 0.1), or 1 + 0.1·sin(…) for vectors. */
export function setSineWeights(model: Module): void {
  for (const [t, parameter] of [...model.namedParameters().values()].entries())
    for (let i = 0; i < parameter.data.length; i++) {
      const wave = Math.sin(1.3 * i + 0.7 * t + 0.1);
      parameter.data[i] = parameter.rank === 1 ? 1 + 0.1 * wave : 0.3 * wave;
    }
}

/** The largest difference between two lists of equal length. */
export function largestDifference(a: ArrayLike<number>, b: ArrayLike<number>): number {
  if (a.length !== b.length) return Number.POSITIVE_INFINITY;
  return Array.from(a).reduce((worst, x, i) => {
    const difference = Math.abs(x - b[i]!);
    return Number.isNaN(difference) ? Number.POSITIVE_INFINITY : Math.max(worst, difference);
  }, 0);
}

/** What `fn` throws, or undefined. */
export function errorOf(fn: () => unknown): unknown {
  try {
    fn();
    return undefined;
  } catch (error) {
    return error;
  }
}

export function tinyTransformer(
  options: ConstructorParameters<typeof ReferenceTransformer>[0] = {},
  seed = 1,
): ReferenceTransformer {
  const model = new ReferenceTransformer({
    vocabSize: 7,
    blockSize: 8,
    nLayer: 2,
    nHead: 2,
    nKvHead: 1,
    dModel: 8,
    dFf: 12,
    ...options,
  });
  initialize(model, seed);
  return model;
}
