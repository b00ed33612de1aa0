// Building blocks for the operator cases: random shapes, values away from kinks and ties, and the sample type.
// Values come from a seed that fast-check draws, so that shrinking works on shapes.

import fc from "fast-check";
import { toStorage } from "../../src/tensor/backends/reference/kernel.js";
import { type DType, isFloating, type TensorData } from "../../src/tensor/dtype.js";
import type { OpName, OpParams } from "../../src/tensor/ops/params.js";
import { sizeOf } from "../../src/tensor/shape.js";
import { MersenneTwister } from "../../src/util/rng.js";

export type FloatDType = "float16" | "float32" | "float64";

/** One operand. dtype `float` becomes whichever floating dtype a test runs in. */
export interface Operand {
  readonly shape: readonly number[];
  readonly dtype: "float" | DType;
  readonly values: readonly number[];
  /** The gradient rule takes it for a constant of the model, although it is floating. */
  readonly isConstant?: boolean;
}

/** One valid use of an operator. */
export interface Sample<K extends OpName = OpName> {
  readonly params: (float: FloatDType) => OpParams[K];
  readonly inputs: readonly Operand[];
}

export interface OperatorCase<K extends OpName> {
  readonly arbitrary: fc.Arbitrary<Sample<K>>;
  /** How many leading outputs are results; the rest are saved for the gradient. Default: all. */
  readonly results?: number;
  /** The gradient rule throws: there are no second derivatives through this operator. */
  readonly refusesGradient?: boolean;
  /** The gradient is zero on purpose, whatever the slope. */
  readonly stopsGradient?: boolean;
}

/** `operand` as concrete data, `float` being `float`. Values are rounded to float32 first, so runs compare. */
export function materialize({ shape, dtype, values }: Operand, float: FloatDType): TensorData {
  const exact = dtype === "float" ? float : dtype;
  const rounded = isFloating(exact) ? values.map(Math.fround) : values;
  return { dtype: exact, shape, data: toStorage(exact, Float64Array.from(rounded)) };
}

/** The same `runs` samples of a case every time. */
export function samplesOf<K extends OpName>(operator: OperatorCase<K>, runs: number): Sample<K>[] {
  return fc.sample(operator.arbitrary, { numRuns: runs, seed: 20240607 });
}

/** Sizes of one axis: small, odd, sometimes one, seldom zero. */
export const extent = fc.oneof(
  { weight: 1, arbitrary: fc.constant(0) },
  { weight: 3, arbitrary: fc.constant(1) },
  { weight: 12, arbitrary: fc.integer({ min: 2, max: 5 }) },
  { weight: 2, arbitrary: fc.constant(7) },
);
export const positiveExtent = fc.oneof(
  { weight: 1, arbitrary: fc.constant(1) },
  { weight: 4, arbitrary: fc.integer({ min: 2, max: 5 }) },
);
export const shapes = (minRank: number, maxRank: number, extents = extent): fc.Arbitrary<number[]> =>
  fc.array(extents, { minLength: minRank, maxLength: maxRank });

/** `count` shapes that broadcast together. */
export const broadcastableShapes = (count: number): fc.Arbitrary<number[][]> =>
  shapes(0, 3).chain((shape) => {
    const one = fc
      .tuple(
        fc.nat(shape.length),
        fc.array(fc.boolean(), { minLength: shape.length, maxLength: shape.length }),
        fc.integer({ min: 0, max: 3 }),
      )
      // Half the operands keep the whole shape; the others lose leading axes and repeat some of the rest.
      .map(([drop, ones, plain]) =>
        plain >= 2 ? shape : shape.map((n, i) => (ones[i] ? 1 : n)).slice(drop),
      );
    return fc.array(one, { minLength: count, maxLength: count });
  });

const seeds = fc.integer({ min: 0, max: 2 ** 31 - 1 });

/** Uniform values in [low, high). */
export const floats = (shape: readonly number[], low = -2, high = 2): fc.Arbitrary<Operand> =>
  seeds.map((seed) => operand(shape, "float", seed, (draw) => low + draw() * (high - low)));

/** Uniform sizes in [low, high) with a random sign: keeps a distance from zero. */
export const signed = (shape: readonly number[], low = 0.2, high = 2): fc.Arbitrary<Operand> =>
  seeds.map((seed) =>
    operand(shape, "float", seed, (draw) => (low + draw() * (high - low)) * (draw() < 0.5 ? -1 : 1)),
  );

/** Multiples of 0.02, shifted by `offset`, of which no two are closer than 0.04: no ties under max, min and comparisons. */
export const distinct = (shape: readonly number[], offset = 0): fc.Arbitrary<Operand> =>
  seeds.map((seed) => {
    const draw = uniform(seed);
    const size = sizeOf(shape);
    const order = Array.from({ length: size }, (_, i) => i);
    for (let i = size - 1; i > 0; i--) {
      const j = Math.floor(draw() * (i + 1));
      [order[i], order[j]] = [order[j]!, order[i]!];
    }
    return { shape, dtype: "float", values: order.map((rank) => (rank - size / 2) * 0.04 + offset) };
  });

export const asConstant = (draws: fc.Arbitrary<Operand>): fc.Arbitrary<Operand> =>
  draws.map((operand) => ({ ...operand, isConstant: true }));

/** Integers 0 … bound−1. */
export const integers = (shape: readonly number[], bound: number): fc.Arbitrary<Operand> =>
  seeds.map((seed) => operand(shape, "int32", seed, (draw) => Math.floor(draw() * bound)));

export const booleans = (shape: readonly number[], chance = 0.5): fc.Arbitrary<Operand> =>
  seeds.map((seed) => operand(shape, "bool", seed, (draw) => (draw() < chance ? 1 : 0)));

function operand(
  shape: readonly number[],
  dtype: Operand["dtype"],
  seed: number,
  next: (draw: () => number) => number,
): Operand {
  const draw = uniform(seed);
  return { shape, dtype, values: Array.from({ length: sizeOf(shape) }, () => next(draw)) };
}

/** Numbers in [0, 1) from a seed. */
export function uniform(seed: number): () => number {
  const generator = new MersenneTwister(seed);
  return () => generator.nextUint32() / 2 ** 32;
}
