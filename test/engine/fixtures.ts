// A small reference transformer with batches for it, engines that hold it, and distances between results.

import { initialize, ReferenceTransformer, type TrainableModel } from "speedtronic/nn";
import type { TensorData } from "speedtronic/tensor";
import {
  createLocalEngine,
  type EngineOptions,
  type EngineParameter,
  type TrainEngine,
} from "speedtronic/train";

export type Feeds = Readonly<Record<string, TensorData>>;

export function smallTransformer(
  options: ConstructorParameters<typeof ReferenceTransformer>[0] = {},
  seed = 1,
): ReferenceTransformer {
  const shape = { vocabSize: 13, blockSize: 8, nLayer: 2, nHead: 2, nKvHead: 1, dModel: 12, dFf: 20 };
  const model = new ReferenceTransformer({ ...shape, ...options });
  initialize(model, seed);
  return model;
}

/** Token ids by formula; label −100 from `targets` of each row on. */
export function tokens(
  rows: number,
  columns: number,
  { salt = 0, targets = columns, vocab = 13 }: { salt?: number; targets?: number; vocab?: number } = {},
): Feeds {
  const id = (i: number) => (i * i + 3 * i + 5 * salt) % vocab;
  const size = rows * columns;
  const shape = [rows, columns];
  return {
    input_ids: { dtype: "int32", shape, data: Int32Array.from({ length: size }, (_, i) => id(i)) },
    labels: {
      dtype: "int32",
      shape,
      data: Int32Array.from({ length: size }, (_, i) => (i % columns < targets ? id(i + 1) : -100)),
    },
  };
}

/** The rows of both, one below the other. */
export function stackRows(above: Feeds, below: Feeds): Feeds {
  return Object.fromEntries(
    Object.entries(above).map(([name, a]) => {
      const b = below[name]!;
      const data = Int32Array.from([...(a.data as Int32Array), ...(b.data as Int32Array)]);
      return [name, { dtype: a.dtype, shape: [a.shape[0]! + b.shape[0]!, a.shape[1]!], data }];
    }),
  );
}

export const rng = (seed: number, draw: number): Feeds => ({
  rng: { dtype: "int32", shape: [2], data: Int32Array.of(seed, draw) },
});

export function engineParameters(model: TrainableModel): EngineParameter[] {
  return [...model.namedParameters()].map(([name, parameter]) => ({
    name,
    shape: parameter.shape,
    trainable: parameter.trainable,
    decays: parameter.rank > 1,
  }));
}

export const adamw = {
  name: "adamw",
  hyper: { betas: [0.9, 0.95], eps: 1e-8, weightDecay: 0.1 },
} as const satisfies NonNullable<EngineOptions["optimizer"]>;

export function engineOptions(
  model: TrainableModel,
  backend: EngineOptions["backend"],
  threads = 1,
): EngineOptions {
  return { backend, threads, parameters: engineParameters(model), optimizer: adamw };
}

export const parametersOf = (model: TrainableModel): Map<string, TensorData> =>
  new Map([...model.namedParameters()].map(([name, parameter]) => [name, parameter.toData()]));

/** An engine on this thread that holds the model's present values. */
export async function engineFor(
  model: TrainableModel,
  backend: EngineOptions["backend"] = "onnx",
): Promise<TrainEngine> {
  const engine = await createLocalEngine(engineOptions(model, backend));
  await engine.writeParameters(parametersOf(model));
  return engine;
}

/** Largest difference of two tensors relative to the largest value of the second (to 1e-4 where all are smaller). */
export function distance(actual: ArrayLike<number>, expected: ArrayLike<number>): number {
  if (actual.length !== expected.length) return Number.POSITIVE_INFINITY;
  let scale = 1e-4;
  let worst = 0;
  for (let i = 0; i < expected.length; i++) {
    scale = Math.max(scale, Math.abs(expected[i]!));
    const difference = Math.abs(actual[i]! - expected[i]!);
    worst = Number.isNaN(difference) ? Number.POSITIVE_INFINITY : Math.max(worst, difference);
  }
  return worst / scale;
}

/** By name, the distance of every tensor that differs by more than `tolerance`. Equal sets of names are required. */
export function differences(
  actual: ReadonlyMap<string, TensorData> | Feeds,
  expected: ReadonlyMap<string, TensorData> | Feeds,
  tolerance: number,
): Record<string, number> {
  const [left, right] = [asMap(actual), asMap(expected)];
  const found: Record<string, number> = {};
  for (const name of new Set([...left.keys(), ...right.keys()])) {
    const [a, b] = [left.get(name), right.get(name)];
    const far = a && b ? distance(a.data, b.data) : Number.POSITIVE_INFINITY;
    if (!(far <= tolerance)) found[name] = far;
  }
  return found;
}

const asMap = (tensors: ReadonlyMap<string, TensorData> | Feeds): ReadonlyMap<string, TensorData> =>
  tensors instanceof Map ? tensors : new Map(Object.entries(tensors));
