// One row per operator: random valid uses of it. The gradient checks and the comparison of backends walk this
// table. Long because operators are many: each row stands alone.

import fc from "fast-check";
import { kernels } from "../../src/tensor/backends/reference/kernels.js";
import type { AttentionParams, OpName, OpParams } from "../../src/tensor/ops/params.js";
import { sizeOf } from "../../src/tensor/shape.js";
import {
  asConstant,
  booleans,
  broadcastableShapes,
  distinct,
  extent,
  floats,
  integers,
  materialize,
  type Operand,
  type OperatorCase,
  positiveExtent,
  type Sample,
  shapes,
  signed,
} from "./case-generators.js";

/** A sample whose parameters do not depend on the dtype. */
const sample = <K extends OpName>(params: OpParams[K], inputs: readonly Operand[]): Sample<K> => ({
  params: () => params,
  inputs,
});

const tupleOf = <T>(list: readonly fc.Arbitrary<T>[]): fc.Arbitrary<T[]> => fc.tuple(...list);

type Draw = (shape: readonly number[]) => fc.Arbitrary<Operand>;

const unary = <K extends OpName>(params: OpParams[K], draw: Draw = floats): OperatorCase<K> => ({
  arbitrary: shapes(0, 3)
    .chain(draw)
    .map((x) => sample(params, [x])),
});

/** Operators with broadcasting and no parameters. */
const broadcasting = <K extends OpName>(...draws: Draw[]): OperatorCase<K> => ({
  arbitrary: broadcastableShapes(draws.length)
    .chain((list) => tupleOf(draws.map((draw, i) => draw(list[i]!))))
    .map((inputs) => sample({} as OpParams[K], inputs)),
});

/** Two operands that never tie: one on a grid of step 0.02, the other half a step off it. */
const untied = <K extends OpName>() =>
  broadcasting<K>(
    (s) => distinct(s),
    (s) => distinct(s, 0.01),
  );
/** Two operands that often tie. */
const tied = <K extends OpName>() =>
  broadcasting<K>(
    (s) => integers(s, 3),
    (s) => integers(s, 3),
  );

const positive: Draw = (shape) => floats(shape, 0.2, 3);
const mask: Draw = (shape) => booleans(shape);

const axisOf = (shape: readonly number[]) => fc.nat(shape.length - 1);

const reduction = <K extends "sum" | "mean" | "max" | "min">(
  extents: typeof extent,
  draw: Draw,
): OperatorCase<K> => ({
  arbitrary: shapes(0, 4, extents).chain((shape) =>
    fc
      .tuple(draw(shape), fc.subarray(shape.map((_, axis) => axis)), fc.boolean())
      .map(([x, axes, keepDims]) => sample<K>({ axes, keepDims } as OpParams[K], [x])),
  ),
});

/** Operators along one axis, with one more boolean parameter. */
const alongAxis = <K extends OpName>(
  extents: typeof extent,
  params: (axis: number, flag: boolean) => OpParams[K],
  draw: Draw = floats,
): OperatorCase<K> => ({
  arbitrary: shapes(1, 3, extents).chain((shape) =>
    fc
      .tuple(draw(shape), axisOf(shape), fc.boolean())
      .map(([x, axis, flag]) => sample(params(axis, flag), [x])),
  ),
});

const transposedIf = (isTransposed: boolean, [rows, columns]: [number, number]) =>
  isTransposed ? [columns, rows] : [rows, columns];

const matmulCase: OperatorCase<"matmul"> = {
  arbitrary: fc
    .tuple(fc.tuple(extent, extent, extent), fc.boolean(), fc.boolean(), broadcastableShapes(2))
    .chain(([[m, k, n], transA, transB, [batchA, batchB]]) =>
      tupleOf([
        floats([...batchA!.slice(0, 2), ...transposedIf(transA, [m, k])]),
        floats([...batchB!.slice(0, 2), ...transposedIf(transB, [k, n])]),
      ]).map((inputs) => sample<"matmul">({ transA, transB }, inputs)),
    )
    .filter(({ inputs: [a, b] }) => fitsBatch(a!.shape.slice(0, -2), b!.shape.slice(0, -2))),
};

function fitsBatch(a: readonly number[], b: readonly number[]): boolean {
  return Array.from({ length: Math.min(a.length, b.length) }, (_, i) => [a.at(-1 - i)!, b.at(-1 - i)!]).every(
    ([x, y]) => x === y || x === 1 || y === 1,
  );
}

const matmulAddCase: OperatorCase<"matmulAdd"> = {
  arbitrary: fc
    .tuple(fc.tuple(extent, extent, extent), fc.boolean(), fc.boolean(), shapes(0, 2))
    .chain(([[m, k, n], transA, transB, batch]) =>
      tupleOf([
        floats([...batch, ...transposedIf(transA, [m, k])]),
        floats(transposedIf(transB, [k, n])),
        floats([...batch, m, n]),
      ]).map((inputs) => sample<"matmulAdd">({ transA, transB }, inputs)),
    ),
};

const triangle = <K extends "tril" | "triu">(): OperatorCase<K> => ({
  arbitrary: fc
    .tuple(shapes(2, 3), fc.integer({ min: -3, max: 3 }))
    .chain(([shape, diagonal]) => floats(shape).map((x) => sample<K>({ diagonal } as OpParams[K], [x]))),
});

/** A base, its axis and index tensors for the indexing operators. */
const indexed = (along: boolean) =>
  shapes(1, 3, positiveExtent).chain((shape) =>
    fc.tuple(axisOf(shape), shapes(0, 2), extent).chain(([axis, free, count]) => {
      const indexShape = along ? shape.map((n, i) => (i === axis ? count : n)) : free;
      const result = along ? indexShape : [...shape.slice(0, axis), ...free, ...shape.slice(axis + 1)];
      return fc.record({
        axis: fc.constant(axis),
        base: floats(shape),
        indices: integers(indexShape, shape[axis]!),
        updates: floats(result),
      });
    }),
  );

const reading = <K extends "gather" | "takeAlong">(along: boolean): OperatorCase<K> => ({
  arbitrary: indexed(along).map(({ axis, base, indices }) =>
    sample<K>({ axis } as OpParams[K], [base, indices]),
  ),
});
const adding = <K extends "scatterAdd" | "scatterAddAlong">(along: boolean): OperatorCase<K> => ({
  arbitrary: indexed(along).map(({ axis, base, indices, updates }) =>
    sample<K>({ axis } as OpParams[K], [base, indices, updates]),
  ),
});

interface AttentionSample extends Sample<"attention"> {
  readonly out: Operand;
}

const attentionSamples: fc.Arbitrary<AttentionSample> = fc
  .record({
    blocks: fc.constantFrom(1, 2, 4),
    runs: fc.constantFrom(1, 1, 2),
    B: fc.integer({ min: 1, max: 2 }),
    K: fc.integer({ min: 1, max: 2 }),
    group: fc.integer({ min: 1, max: 3 }),
    D: fc.constantFrom(1, 2, 3),
    S: fc.integer({ min: 1, max: 5 }),
    causal: fc.boolean(),
    hasKeyMask: fc.boolean(),
    hasDropout: fc.boolean(),
  })
  .chain(({ blocks, runs, B, K, group, D, S: keys, causal, hasKeyMask, hasDropout }) => {
    const T = blocks * runs;
    const S = causal ? T : keys;
    const H = K * group;
    const params: AttentionParams = { scale: 0.7, causal, blocks, hasKeyMask, hasDropout };
    const dropout = asConstant(booleans([B, H, T, S], 0.7)).map(
      (m): Operand => ({ ...m, dtype: "float", values: m.values.map((v) => v * 1.25) }),
    );
    return fc
      .tuple(
        tupleOf([
          floats([T, B, H, D]),
          floats([S, B, K, D]),
          floats([S, B, K, D]),
          ...(hasKeyMask ? [booleans([B, S], 0.6)] : []),
          ...(hasDropout ? [dropout] : []),
        ]),
        floats([T, B, H, D]),
      )
      .map(([inputs, out]) => ({ ...sample<"attention">(params, inputs), out }));
  });

/** Completes an attention sample with what its forward pass saved and an upstream gradient. */
function withSaved(forward: AttentionSample): Sample<"attentionGrad"> {
  const params = forward.params("float64");
  const [T, B, H] = forward.inputs[0]!.shape as [number, number, number];
  const S = forward.inputs[1]!.shape[0]!;
  const rows = T / params.blocks;
  const spans = Array.from({ length: params.blocks }, (_, i) => (params.causal ? (i + 1) * rows : S));
  const types = [forward.inputs[0]!.shape, ...spans.map((span) => [B, H, rows, span])].map((shape) => ({
    shape,
    dtype: "float64" as const,
  }));
  const saved = kernels.attention(
    params,
    forward.inputs.map((x) => materialize(x, "float64")),
    types,
  );
  const operands = saved.map(
    (values, i): Operand => ({ shape: types[i]!.shape, dtype: "float", values: [...values] }),
  );
  return { params: () => params, inputs: [...forward.inputs, forward.out, ...operands] };
}

const rows = shapes(0, 2).chain((lead) => positiveExtent.map((width) => [...lead, width]));

export const operatorCases = {
  neg: unary({}),
  exp: unary({}),
  log: unary({}, positive),
  sqrt: unary({}, positive),
  rsqrt: unary({}, positive),
  tanh: unary({}),
  sigmoid: unary({}),
  erf: unary({}),
  sin: unary({}),
  cos: unary({}),
  abs: unary({}, signed),
  sign: unary({}, signed),
  relu: unary({}, signed),
  silu: unary({}),
  gelu: {
    arbitrary: fc
      .tuple(shapes(0, 3), fc.constantFrom("none" as const, "tanh" as const))
      .chain(([shape, approximate]) => floats(shape).map((x) => sample<"gelu">({ approximate }, [x]))),
  },
  logicalNot: unary({}, mask),
  // Multiples of 0.02 never meet bounds that are odd multiples of 0.01.
  clamp: unary({ min: -0.31, max: 0.47 }, (shape) => distinct(shape)),
  cast: {
    arbitrary: fc
      .tuple(
        shapes(0, 3),
        fc.constantFrom("float", "int32", "bool"),
        fc.constantFrom("float32", "float64", "int32", "bool"),
      )
      .chain(([shape, from, to]) => {
        const x =
          from === "float" ? signed(shape, 0.2, 9) : from === "int32" ? integers(shape, 9) : booleans(shape);
        // A cast to double is the identity in a double run, to keep differences exact.
        return x.map(
          (operand): Sample<"cast"> => ({
            params: (float) => ({
              dtype: to === "float32" && float === "float64" ? "float64" : (to as "float32"),
            }),
            inputs: [operand],
          }),
        );
      }),
  },
  stopGradient: { ...unary({}), stopsGradient: true },
  add: broadcasting(floats, floats),
  sub: broadcasting(floats, floats),
  mul: broadcasting(floats, floats),
  div: broadcasting(floats, signed),
  pow: broadcasting(positive, floats),
  minimum: untied(),
  maximum: untied(),
  equal: tied(),
  notEqual: tied(),
  less: tied(),
  lessEqual: tied(),
  greater: untied(),
  greaterEqual: tied(),
  logicalAnd: broadcasting(mask, mask),
  logicalOr: broadcasting(mask, mask),
  where: broadcasting(mask, floats, floats),
  matmul: matmulCase,
  matmulAdd: matmulAddCase,
  sum: reduction(extent, floats),
  mean: reduction(positiveExtent, floats),
  max: reduction(positiveExtent, (shape) => distinct(shape)),
  min: reduction(positiveExtent, (shape) => distinct(shape)),
  argmax: alongAxis(
    positiveExtent,
    (axis, keepDims) => ({ axis, keepDims }),
    (shape) => distinct(shape),
  ),
  logsumexp: alongAxis(positiveExtent, (axis, keepDims) => ({ axis, keepDims })),
  cumsum: alongAxis(extent, (axis, reverse) => ({ axis, reverse })),
  softmax: alongAxis(extent, (axis) => ({ axis })),
  logSoftmax: alongAxis(extent, (axis) => ({ axis })),
  reshape: {
    arbitrary: fc.tuple(fc.array(extent, { maxLength: 4 }), fc.nat(5)).chain(([shape, turn]) =>
      floats(shape).map((x) => {
        const targets = [
          [sizeOf(shape)],
          [...shape].reverse(),
          [1, ...shape],
          [...shape, 1],
          [shape[0] ?? 1, sizeOf(shape.slice(1))],
        ];
        return sample<"reshape">({ shape: targets[turn % targets.length]! }, [x]);
      }),
    ),
  },
  transpose: {
    arbitrary: shapes(0, 4).chain((shape) =>
      fc
        .tuple(
          floats(shape),
          fc.shuffledSubarray(
            shape.map((_, i) => i),
            { minLength: shape.length },
          ),
        )
        .map(([x, perm]) => sample<"transpose">({ perm }, [x])),
    ),
  },
  expand: {
    arbitrary: shapes(0, 3).chain((shape) =>
      fc
        .tuple(
          fc.nat(shape.length),
          fc.array(fc.boolean(), { minLength: shape.length, maxLength: shape.length }),
        )
        .chain(([drop, ones]) => floats(shape.map((n, i) => (ones[i] ? 1 : n)).slice(drop)))
        .map((x) => sample<"expand">({ shape }, [x])),
    ),
  },
  concat: {
    arbitrary: shapes(1, 3).chain((shape) =>
      fc
        .tuple(axisOf(shape), fc.array(extent, { minLength: 1, maxLength: 3 }))
        .chain(([axis, sizes]) =>
          tupleOf(sizes.map((size) => floats(shape.map((n, i) => (i === axis ? size : n))))).map((inputs) =>
            sample<"concat">({ axis }, inputs),
          ),
        ),
    ),
  },
  split: {
    arbitrary: shapes(1, 3).chain((shape) =>
      fc.tuple(axisOf(shape), fc.array(extent, { minLength: 1, maxLength: 3 })).chain(([axis, sizes]) => {
        const total = sizes.reduce((sum, n) => sum + n, 0);
        return floats(shape.map((n, i) => (i === axis ? total : n))).map((x) =>
          sample<"split">({ axis, sizes }, [x]),
        );
      }),
    ),
  },
  slice: {
    arbitrary: shapes(0, 3).chain((shape) =>
      fc.tuple(floats(shape), tupleOf(shape.map((n) => fc.tuple(fc.nat(n), fc.nat(n))))).map(([x, pairs]) => {
        const ranges = pairs.map((pair) => pair.sort((a, b) => a - b));
        return sample<"slice">(
          { starts: ranges.map(([start]) => start), ends: ranges.map(([, end]) => end) },
          [x],
        );
      }),
    ),
  },
  pad: {
    arbitrary: shapes(0, 3).chain((shape) => {
      const counts = tupleOf(shape.map(() => fc.nat(2)));
      return fc
        .tuple(floats(shape), counts, counts, fc.constantFrom(0, 1.5, -2))
        .map(([x, low, high, value]) => sample<"pad">({ low, high, value }, [x]));
    }),
  },
  tril: triangle(),
  triu: triangle(),
  iota: {
    arbitrary: fc.tuple(extent, fc.boolean()).map(
      ([size, isInteger]): Sample<"iota"> => ({
        params: (float) => ({ size, dtype: isInteger ? "int32" : float }),
        inputs: [],
      }),
    ),
  },
  oneHot: {
    arbitrary: fc.tuple(shapes(0, 2), positiveExtent).chain(([shape, depth]) =>
      // One beyond the depth now and then: such a row is all zeros.
      integers(shape, depth + 1).map(
        (x): Sample<"oneHot"> => ({ params: (dtype) => ({ depth, dtype }), inputs: [x] }),
      ),
    ),
  },
  gather: reading(false),
  takeAlong: reading(true),
  scatterAdd: adding(false),
  scatterAddAlong: adding(true),
  layerNorm: {
    results: 1,
    arbitrary: rows
      .chain((shape) => tupleOf([floats(shape), floats(shape.slice(-1)), floats(shape.slice(-1))]))
      .map((inputs) => sample<"layerNorm">({ eps: 0.1 }, inputs)),
  },
  rmsNorm: {
    results: 1,
    arbitrary: rows
      .chain((shape) => tupleOf([floats(shape), floats(shape.slice(-1))]))
      .map((inputs) => sample<"rmsNorm">({ eps: 0.1 }, inputs)),
  },
  dropoutMask: {
    arbitrary: fc
      .tuple(shapes(0, 3), fc.constantFrom(0.1, 0.5, 0.9), fc.nat(9), integers([2], 1000))
      .map(([shape, rate, site, rng]) => sample<"dropoutMask">({ shape, rate, site }, [rng])),
  },
  rotaryEmbedding: {
    arbitrary: fc
      .tuple(extent, extent, positiveExtent, fc.constantFrom(1, 2, 3))
      .chain(([T, B, H, half]) =>
        tupleOf([floats([T, B, H, 2 * half]), floats([T, half]), floats([T, half])]).map((inputs) =>
          sample<"rotaryEmbedding">({}, inputs),
        ),
      ),
  },
  attention: { results: 1, arbitrary: attentionSamples },
  attentionGrad: { refusesGradient: true, arbitrary: attentionSamples.map(withSaved) },
  swiglu: {
    results: 1,
    arbitrary: shapes(0, 3)
      .chain((shape) => tupleOf([floats(shape), floats(shape)]))
      .map((inputs) => sample<"swiglu">({}, inputs)),
  },
  linearCrossEntropy: {
    results: 2,
    arbitrary: fc
      .record({
        chunks: fc.constantFrom(1, 2, 3),
        perChunk: extent,
        D: positiveExtent,
        V: positiveExtent,
        ignored: fc.boolean(),
      })
      .chain(({ chunks, perChunk, D, V, ignored }) => {
        const N = chunks * perChunk;
        const labels = integers([N], V).map(
          (l): Operand => ({ ...l, values: l.values.map((v, i) => (ignored && i % 3 !== 1 ? -100 : v)) }),
        );
        return tupleOf([floats([N, D]), floats([V, D]), labels]).map((inputs) =>
          sample<"linearCrossEntropy">({ chunks, ignoreIndex: -100 }, inputs),
        );
      }),
  },
} satisfies { [K in OpName]: OperatorCase<K> };
