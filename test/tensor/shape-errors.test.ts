// Operands that do not fit: the message names the operator, the operands, the problem and the user's line.

import { expect, test } from "vitest";
import {
  add,
  argmax,
  attention,
  clamp,
  concat,
  div,
  dropoutMask,
  exp,
  expand,
  gather,
  grad,
  input,
  iota,
  layerNorm,
  less,
  linearCrossEntropy,
  logicalAnd,
  matmul,
  max,
  mul,
  OperatorError,
  oneHot,
  pad,
  reshape,
  rotaryEmbedding,
  scatterAdd,
  slice,
  softmax,
  split,
  stack,
  sum,
  swiglu,
  type Tensor,
  takeAlong,
  transpose,
  tril,
  where,
} from "../../src/tensor/index.js";

const f = (...shape: number[]) => input("f", shape, "float32");
const d = (...shape: number[]) => input("d", shape, "float64");
const i = (...shape: number[]) => input("i", shape, "int32");
const b = (...shape: number[]) => input("b", shape, "bool");

const cases: [() => unknown, string][] = [
  [
    () => add(f(2, 3), f(4)),
    "add: shapes [2, 3] and [4] do not broadcast (inputs: float32[2, 3], float32[4])",
  ],
  [
    () => mul(f(2), d(2)),
    "mul: dtypes float32 and float64 differ: cast one of them (inputs: float32[2], float64[2])",
  ],
  [() => add(b(2), b(2)), "add: needs numbers, got bool: cast it first (inputs: bool[2], bool[2])"],
  [
    () => div(i(2), i(2)),
    "div: needs floating-point input, got int32: cast it first (inputs: int32[2], int32[2])",
  ],
  [() => add(1, 2), "add: one operand must be a tensor"],
  [() => exp(i(3)), "exp: needs floating-point input, got int32: cast it first (inputs: int32[3])"],
  [
    () => less(f(2), i(2)),
    "less: dtypes float32 and int32 differ: cast one of them (inputs: float32[2], int32[2])",
  ],
  [
    () => logicalAnd(b(2), f(2)),
    "logicalAnd: each input must be bool, got float32 (inputs: bool[2], float32[2])",
  ],
  [
    () => where(f(2), f(2), f(2)),
    "where: the condition must be bool, got float32 (inputs: float32[2], float32[2], float32[2])",
  ],
  [() => clamp(f(2), 1, 0), "clamp: min 1 must not exceed max 0 (inputs: float32[2])"],
  [
    () => matmul(f(2, 3), f(4, 5)),
    "matmul: inner sizes 3 and 4 differ ([2, 3] · [4, 5]) (inputs: float32[2, 3], float32[4, 5])",
  ],
  [
    () => matmul(f(2, 3), f(4, 5), { transA: true, transB: true }),
    "matmul: inner sizes 2 and 5 differ ([2, 3]ᵀ · [4, 5]ᵀ) (inputs: float32[2, 3], float32[4, 5])",
  ],
  [
    () => matmul(f(2, 3, 4), f(5, 4, 6)),
    "matmul: leading axes of [2, 3, 4] and [5, 4, 6] do not broadcast (inputs: float32[2, 3, 4], float32[5, 4, 6])",
  ],
  [
    () => matmul(f(3), f(3, 2)),
    "matmul: needs operands of rank 2 or more (inputs: float32[3], float32[3, 2])",
  ],
  [() => sum(f(2, 3), { axis: 2 }), "sum: axis 2 is outside [2, 3] (inputs: float32[2, 3])"],
  [() => softmax(f(2), -2), "softmax: axis -2 is outside [2] (inputs: float32[2])"],
  [() => max(f(2, 0)), "max: cannot reduce axis 1 of size 0 (inputs: float32[2, 0])"],
  [() => argmax(f(0), 0), "argmax: cannot reduce axis 0 of size 0 (inputs: float32[0])"],
  [() => reshape(f(2, 3), [4]), "reshape: [4] holds 4 elements, the input 6 (inputs: float32[2, 3])"],
  [() => reshape(f(2, 3), [-1, 4]), "reshape: 6 elements do not fill [-1, 4] (inputs: float32[2, 3])"],
  [
    () => reshape(f(2, 3), [-1, -1]),
    "reshape: at most one extent may be -1, got [-1, -1] (inputs: float32[2, 3])",
  ],
  [
    () => transpose(f(2, 3), [0, 0]),
    "transpose: [0, 0] is not a permutation of 2 axes (inputs: float32[2, 3])",
  ],
  [() => expand(f(2), [3]), "expand: [2] does not broadcast to [3] (inputs: float32[2])"],
  [
    () => concat([f(2, 3), f(2, 4)], 0),
    "concat: all sizes but axis 0 must agree (inputs: float32[2, 3], float32[2, 4])",
  ],
  [() => concat([], 0), "concat: needs at least one input"],
  [() => stack([f(2), f(3)]), "stack: all shapes must be equal (inputs: float32[2], float32[3])"],
  [() => split(f(5), 2, 0), "split: 2 equal parts do not divide axis 0 of size 5 (inputs: float32[5])"],
  [() => split(f(5), [2, 2], 0), "split: sizes [2, 2] do not add up to axis 0 of [5] (inputs: float32[5])"],
  [() => slice(f(5), 0, 3, 9), "slice: range 3…9 is outside axis 0 of size 5 (inputs: float32[5])"],
  [
    () => pad(f(5), [1, 1], [0]),
    "pad: needs one non-negative low and high count per axis (1) (inputs: float32[5])",
  ],
  [() => tril(f(5)), "tril: needs rank 2 or more (inputs: float32[5])"],
  [() => iota(-1), "iota: size -1 is not a count"],
  [() => oneHot(f(2), 3), "oneHot: the index must be int32, got float32 (inputs: float32[2])"],
  [() => gather(f(2), f(2)), "gather: the index must be int32, got float32 (inputs: float32[2], float32[2])"],
  [
    () => takeAlong(f(2, 3), i(3, 1), 1),
    "takeAlong: indices [3, 1] must equal [2, 3] except on axis 1 (inputs: float32[2, 3], int32[3, 1])",
  ],
  [
    () => scatterAdd(f(5, 2), i(3), f(3)),
    "scatterAdd: the updates must have shape [3, 2], got [3] (inputs: float32[5, 2], int32[3], float32[3])",
  ],
  [
    () => layerNorm(f(2, 3), f(2), f(3)),
    "layerNorm: the weight must have shape [3], got [2] (inputs: float32[2, 3], float32[2], float32[3])",
  ],
  [
    () => swiglu(f(2), f(3)),
    "swiglu: the second input must have shape [2], got [3] (inputs: float32[2], float32[3])",
  ],
  [
    () => rotaryEmbedding(f(2, 1, 1, 3), f(2, 1), f(2, 1)),
    "rotaryEmbedding: the head width 3 must be even (inputs: float32[2, 1, 1, 3], float32[2, 1], float32[2, 1])",
  ],
  [
    () => attention(f(2, 1, 3, 4), f(2, 1, 2, 4), f(2, 1, 2, 4)),
    "attention: 2 key heads do not divide 3 query heads (inputs: float32[2, 1, 3, 4], float32[2, 1, 2, 4], float32[2, 1, 2, 4])",
  ],
  [
    () => attention(f(2, 1, 1, 4), f(3, 1, 1, 4), f(3, 1, 1, 4)),
    "attention: causal attention needs as many keys as queries, got 3 and 2 (inputs: float32[2, 1, 1, 4], float32[3, 1, 1, 4], float32[3, 1, 1, 4])",
  ],
  [
    () => linearCrossEntropy(f(4, 2), f(3, 2), i(4), { chunks: 3 }),
    "linearCrossEntropy: 3 chunks do not divide 4 tokens (inputs: float32[4, 2], float32[3, 2], int32[4])",
  ],
  [() => dropoutMask(i(2), [3], 1, 0), "dropoutMask: rate 1 must lie between 0 and 1 (inputs: int32[2])"],
  [
    () => grad(f(2), []),
    "grad: needs a scalar, got shape [2]: reduce it with sum or mean (inputs: float32[2])",
  ],
  [() => grad(i() as Tensor, []), "grad: needs a floating-point scalar, got int32 (inputs: int32[])"],
];

test.each(cases.map(([record, message]) => ({ record, message })))("$message", ({ record, message }) => {
  const error = caught(record);
  expect(error).toBeInstanceOf(OperatorError);
  expect(error.code).toBe("tensor.operator");
  expect(error.message).toContain(message);
  expect(error.message.slice(message.length)).toMatch(
    /^ at \S*test\/tensor\/shape-errors\.test\.ts:\d+:\d+$/,
  );
});

test("the line is that of the user's call", () => {
  const here = Number(/shape-errors\.test\.ts:(\d+)/.exec(new Error().stack ?? "")?.[1]);
  const error = caught(() => add(f(2), f(3)));
  expect(error.message).toMatch(new RegExp(`shape-errors\\.test\\.ts:${here + 1}:`));
  expect(error.details).toMatchObject({
    op: "add",
    inputs: [
      { shape: [2], dtype: "float32" },
      { shape: [3], dtype: "float32" },
    ],
  });
});

function caught(run: () => unknown): OperatorError {
  try {
    run();
  } catch (error) {
    return error as OperatorError;
  }
  throw new Error("nothing was thrown");
}
