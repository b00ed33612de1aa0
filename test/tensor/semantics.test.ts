// What the operators mean where NumPy and PyTorch users have expectations: values by hand, edge cases, NaN.

import { describe, expect, test } from "vitest";
import { erf as referenceErf } from "../../src/tensor/backends/reference/special.js";
import {
  abs,
  add,
  argmax,
  cast,
  clamp,
  constant,
  cumsum,
  type DType,
  div,
  equal,
  erf,
  evaluate,
  expand,
  full,
  gather,
  gelu,
  grad,
  greater,
  input,
  iota,
  less,
  log,
  logSoftmax,
  logsumexp,
  matmul,
  max,
  maximum,
  mean,
  min,
  minimum,
  mul,
  neg,
  notEqual,
  oneHot,
  pad,
  pow,
  relu,
  reshape,
  rsqrt,
  scatterAdd,
  scatterAddAlong,
  sigmoid,
  sign,
  silu,
  slice,
  softmax,
  split,
  sqrt,
  stack,
  sum,
  type Tensor,
  takeAlong,
  tanh,
  transpose,
  tril,
  triu,
  where,
} from "../../src/tensor/index.js";

const of = (dtype: DType, values: number[], shape: number[] = [values.length]): Tensor => {
  const arrays = {
    float16: Float32Array,
    float32: Float32Array,
    float64: Float64Array,
    int32: Int32Array,
    bool: Uint8Array,
  };
  return constant({ dtype, shape, data: arrays[dtype].from(values) });
};
const f32 = (values: number[], shape?: number[]) => of("float32", values, shape);
const f64 = (values: number[], shape?: number[]) => of("float64", values, shape);
const i32 = (values: number[], shape?: number[]) => of("int32", values, shape);
const matrix = f32([1, 2, 3, 4, 5, 6], [2, 3]);
const { NaN: nan, POSITIVE_INFINITY: inf } = Number;

/** Values and shape. */
const read = (t: Tensor) => [t.shape, [...evaluate(t).data]];
const values = (t: Tensor) => [...evaluate(t).data];

describe("elementwise", () => {
  test("sign, abs and powers at zero", () => {
    expect(values(sign(f32([-2, 0, 3])))).toEqual([-1, 0, 1]);
    expect(values(abs(i32([-2, 0, 3])))).toEqual([2, 0, 3]);
    expect(values(pow(f32([0, 0, 2, -2, 4]), f32([0, 2, -1, 3, 0.5])))).toEqual([1, 0, 0.5, -8, 2]);
  });

  test("the gradient of pow is finite where the function is smooth", () => {
    const [a, b] = [f64([0, 0, 0, -2]), f64([0, 1, 2, 2])];
    const [byA] = grad(sum(pow(a, b)), [a]);
    expect(values(byA!)).toEqual([0, 1, 0, -4]);
  });

  test("division and logarithms at zero follow IEEE", () => {
    expect(values(div(f32([1, -1, 0]), 0))).toEqual([inf, -inf, nan]);
    expect(values(log(f32([0, 1, -1])))).toEqual([-inf, 0, nan]);
    expect(values(rsqrt(f32([0, 4])))).toEqual([inf, 0.5]);
    expect(values(sqrt(f32([-1, 9])))).toEqual([nan, 3]);
  });

  test("int32 wraps around", () => {
    expect(values(add(i32([2 ** 31 - 1]), 1))).toEqual([-(2 ** 31)]);
    expect(values(mul(i32([123456789]), 987654321))).toEqual([Math.imul(123456789, 987654321)]);
    expect(values(neg(i32([-(2 ** 31)])))).toEqual([-(2 ** 31)]);
  });

  test("activations", () => {
    expect(values(relu(f32([-1, 0, 2])))).toEqual([0, 0, 2]);
    expect(values(sigmoid(f64([0, 800, -800])))).toEqual([0.5, 1, 0]);
    expect(values(silu(f64([0, -800])))).toEqual([0, -0]);
    expect(values(tanh(f32([0, 50])))).toEqual([0, 1]);
    // torch.nn.functional.gelu([-1, 0, 1, 2]), exact and approximate.
    close(
      values(gelu(f64([-1, 0, 1, 2]))),
      [-0.15865525393145707, 0, 0.8413447460685429, 1.9544997361036416],
    );
    close(
      values(gelu(f64([-1, 0, 1, 2]), "tanh")),
      [-0.1588080093917233, 0, 0.8411919906082768, 1.9545976940877752],
    );
  });

  test("erf to double precision", () => {
    const known = [
      [0, 0],
      [1e-10, 1.1283791670955126e-10],
      [0.1, 0.1124629160182849],
      [0.5, 0.5204998778130465],
      [1, 0.8427007929497149],
      [1.5, 0.9661051464753108],
      [2, 0.9953222650189527],
      [3, 0.9999779095030014],
      [5, 0.9999999999984626],
      [7, 1],
    ] as const;
    for (const [x, y] of known) {
      expect(Math.abs(referenceErf(x) - y)).toBeLessThanOrEqual(4e-16 * Math.max(y, 1e-300));
      expect(referenceErf(-x)).toBe(-referenceErf(x));
    }
    expect(values(erf(f64([inf, -inf, nan])))).toEqual([1, -1, nan]);
  });

  test("casts truncate towards zero; bool means not zero", () => {
    expect(values(cast(f32([-1.9, -0.5, 0.5, 1.9]), "int32")).map((v) => v + 0)).toEqual([-1, 0, 0, 1]);
    expect(values(cast(f32([-1.9, 0, -0, 1e-20, nan]), "bool"))).toEqual([1, 0, 0, 1, 1]);
    expect(values(cast(of("bool", [1, 0]), "float32"))).toEqual([1, 0]);
    expect(values(cast(f64([0.1, 1e300]), "float32"))).toEqual([Math.fround(0.1), inf]);
    expect(values(cast(f64([1 / 3, 65519, 65520, 2 ** -25]), "float16"))).toEqual([
      0.333251953125,
      65504,
      inf,
      0,
    ]);
  });

  test("float16 rounds after every operator", () => {
    expect(values(add(of("float16", [2048]), 1))).toEqual([2048]);
    expect(values(add(add(of("float16", [2048]), 1), 1))).toEqual([2048]);
    expect(values(sum(of("float16", [2048, 1, 1])))).toEqual([2050]);
  });
});

describe("NaN", () => {
  test("goes through minimum, maximum, relu, clamp and the softmaxes", () => {
    expect(values(minimum(f32([nan, 1]), f32([1, nan])))).toEqual([nan, nan]);
    expect(values(maximum(f32([nan, 1]), f32([1, nan])))).toEqual([nan, nan]);
    expect(values(relu(f32([nan])))).toEqual([nan]);
    expect(values(softmax(f32([nan, 1])))).toEqual([nan, nan]);
    expect(values(logsumexp(f32([nan, 1]), 0))).toEqual([nan]);
    expect(values(clamp(f32([nan, 5, -5]), -1, 1))).toEqual([nan, 1, -1]);
  });

  test("compares as IEEE says", () => {
    expect(values(equal(f32([nan]), f32([nan])))).toEqual([0]);
    expect(values(notEqual(f32([nan]), f32([nan])))).toEqual([1]);
    expect(values(less(f32([nan, 1]), f32([1, nan])))).toEqual([0, 0]);
    expect(values(greater(f32([nan, 1]), f32([1, nan])))).toEqual([0, 0]);
  });

  test("does not leak through the choice that was not taken", () => {
    const x = f32([0, 4]);
    const safe = where(greater(x, 0), x, 1);
    const y = where(greater(x, 0), log(safe), 0);
    expect(values(grad(sum(y), [x])[0]!)).toEqual([0, 0.25]);
    expect(values(where(of("bool", [1, 0]), f32([1, nan]), f32([nan, 2])))).toEqual([1, 2]);
  });
});

describe("reductions and scans", () => {
  test("sum, mean, max and min", () => {
    expect(read(sum(matrix))).toEqual([[], [21]]);
    expect(read(sum(matrix, { axis: 0 }))).toEqual([[3], [5, 7, 9]]);
    expect(read(mean(matrix, { axis: -1, keepDims: true }))).toEqual([
      [2, 1],
      [2, 5],
    ]);
    expect(read(max(matrix, { axis: [0, 1] }))).toEqual([[], [6]]);
    expect(read(min(matrix, { axis: 1 }))).toEqual([[2], [1, 4]]);
  });

  test("a sum over nothing is zero", () => {
    expect(read(sum(f32([], [0, 2]), { axis: 0 }))).toEqual([[2], [0, 0]]);
    expect(read(matmul(f32([], [1, 0]), f32([], [0, 2])))).toEqual([
      [1, 2],
      [0, 0],
    ]);
  });

  test("tied maxima share the gradient", () => {
    const x = f64([3, 1, 3]);
    expect(values(grad(max(x), [x])[0]!)).toEqual([0.5, 0, 0.5]);
    const [a, b] = [f64([2, 1]), f64([2, 3])];
    expect(grad(sum(maximum(a, b)), [a, b]).map(values)).toEqual([
      [0.5, 0],
      [0.5, 1],
    ]);
  });

  test("argmax takes the first of equals", () => {
    expect(read(argmax(f32([1, 3, 3, 5, 5, 0], [2, 3]), 1))).toEqual([[2], [1, 0]]);
    expect(read(argmax(f32([1, 3, 3, 5, 5, 3], [2, 3]), 0, true))).toEqual([
      [1, 3],
      [1, 1, 0],
    ]);
    expect(evaluate(argmax(matrix, 0)).dtype).toBe("int32");
  });

  test("cumsum, forwards and backwards", () => {
    expect(values(cumsum(matrix, 1))).toEqual([1, 3, 6, 4, 9, 15]);
    expect(values(cumsum(matrix, 1, true))).toEqual([6, 5, 3, 15, 11, 6]);
    expect(values(cumsum(matrix, 0, true))).toEqual([5, 7, 9, 4, 5, 6]);
  });

  test("softmax and logsumexp do not overflow", () => {
    expect(values(softmax(f32([1000, 1000, -1000])))).toEqual([0.5, 0.5, 0]);
    close(values(logSoftmax(f64([1000, 1000]))), [-Math.LN2, -Math.LN2]);
    close(values(logsumexp(f64([-1000, -1000]), 0)), [-1000 + Math.LN2]);
    expect(values(logsumexp(f64([-inf, -inf]), 0))).toEqual([-inf]);
    expect(values(softmax(f32([-inf, 0])))).toEqual([0, 1]);
    expect(read(softmax(f32([], [2, 0])))).toEqual([[2, 0], []]);
  });
});

describe("moving elements", () => {
  test("reshape, transpose, expand", () => {
    expect(read(reshape(matrix, [-1, 2]))).toEqual([
      [3, 2],
      [1, 2, 3, 4, 5, 6],
    ]);
    expect(read(transpose(matrix))).toEqual([
      [3, 2],
      [1, 4, 2, 5, 3, 6],
    ]);
    expect(read(expand(f32([1, 2], [2, 1]), [2, 2, 3]))).toEqual([
      [2, 2, 3],
      [1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2],
    ]);
  });

  test("split, slice, stack, pad", () => {
    expect(split(matrix, [1, 2], 1).map(read)).toEqual([
      [
        [2, 1],
        [1, 4],
      ],
      [
        [2, 2],
        [2, 3, 5, 6],
      ],
    ]);
    expect(read(slice(matrix, 1, -2))).toEqual([
      [2, 2],
      [2, 3, 5, 6],
    ]);
    expect(read(stack([f32([1, 2]), f32([3, 4])], -1))).toEqual([
      [2, 2],
      [1, 3, 2, 4],
    ]);
    expect(read(pad(f32([1, 2]), [1], [2], 9))).toEqual([[5], [9, 1, 2, 9, 9]]);
    expect(read(pad(matrix, [0, 1], [1, 0]))).toEqual([
      [3, 4],
      [0, 1, 2, 3, 0, 4, 5, 6, 0, 0, 0, 0],
    ]);
  });

  test("triangles and their diagonals", () => {
    expect(values(tril(matrix))).toEqual([1, 0, 0, 4, 5, 0]);
    expect(values(tril(matrix, 1))).toEqual([1, 2, 0, 4, 5, 6]);
    expect(values(triu(matrix, 1))).toEqual([0, 2, 3, 0, 0, 6]);
    expect(values(triu(matrix, -1))).toEqual([1, 2, 3, 4, 5, 6]);
    // Dropped elements are zero, not multiplied by it.
    expect(values(tril(f32([1, inf, 2, 3], [2, 2])))).toEqual([1, 0, 2, 3]);
  });

  test("generators", () => {
    expect(read(iota(3))).toEqual([[3], [0, 1, 2]]);
    expect(read(full([2], 7, "int32"))).toEqual([[2], [7, 7]]);
    expect(read(oneHot(i32([1, -1, 2, 3]), 3))).toEqual([
      [4, 3],
      [0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0],
    ]);
  });
});

describe("indexing", () => {
  test("gather puts the shape of the indices in place of the axis", () => {
    expect(read(gather(matrix, i32([2, 0, 0, 1], [2, 2]), 1))).toEqual([
      [2, 2, 2],
      [3, 1, 1, 2, 6, 4, 4, 5],
    ]);
    expect(read(gather(matrix, i32([1], []), 0))).toEqual([[3], [4, 5, 6]]);
  });

  test("takeAlong reads one element per index", () => {
    expect(read(takeAlong(matrix, i32([2, 0], [2, 1]), 1))).toEqual([
      [2, 1],
      [3, 4],
    ]);
    expect(read(takeAlong(matrix, i32([1, 0, 1], [1, 3]), 0))).toEqual([
      [1, 3],
      [4, 2, 6],
    ]);
  });

  test("scattered duplicates add up", () => {
    expect(values(scatterAdd(f32([10, 20, 30]), i32([1, 1, 2, 1]), f32([1, 2, 3, 4])))).toEqual([10, 27, 33]);
    expect(values(scatterAdd(f32([0, 0, 0, 0], [2, 2]), i32([1, 1]), f32([1, 2, 3, 4], [2, 2]), 1))).toEqual([
      0, 3, 0, 7,
    ]);
    expect(values(scatterAddAlong(matrix, i32([0, 0, 2, 1], [2, 2]), f32([1, 2, 3, 4], [2, 2]), 1))).toEqual([
      4, 2, 3, 4, 9, 9,
    ]);
  });

  test.each([
    [
      "gather",
      () => gather(matrix, i32([0, 1, 3]), 1),
      "index 3 at position 2 is out of range: the indexed axis has size 3, so indices go from 0 to 2",
    ],
    ["gather", () => gather(matrix, i32([-1])), "index -1 at position 0"],
    ["takeAlong", () => takeAlong(matrix, i32([0, 5], [2, 1]), 1), "index 5 at position 1"],
    ["scatterAdd", () => scatterAdd(f32([0]), i32([1]), f32([1])), "index 1 at position 0"],
    [
      "scatterAddAlong",
      () => scatterAddAlong(f32([0]), i32([0, 1]), f32([1, 1]), 0),
      "index 1 at position 1",
    ],
  ])("%s refuses what is out of range", (op, build, message) => {
    expect(() => evaluate(build())).toThrow(`${op}: ${message}`);
  });
});

test("no gradient flows back through comparisons, integers and stopped values", () => {
  const x = input("x", [2], "float64");
  const feeds = { x: { dtype: "float64", shape: [2], data: Float64Array.of(1.5, -2) } } as const;
  const y = sum(mul(cast(cast(x, "int32"), "float64"), cast(greater(x, 0), "float64")));
  const [g, value] = evaluate([grad(add(y, sum(x)), [x])[0]!, y], feeds);
  expect([[...g!.data], [...value!.data]]).toEqual([[1, 1], [1]]);
});

function close(actual: number[], expected: number[]): void {
  expect(actual).toHaveLength(expected.length);
  actual.forEach((value, i) => {
    expect(value).toBeCloseTo(expected[i]!, 12);
  });
}
