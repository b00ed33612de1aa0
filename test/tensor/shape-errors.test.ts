// Operands that do not fit: the message names the operator, the operands, the problem and the user's line.

import { expect, test } from "vitest";
import {
  add,
  argmax,
  attention,
  cast,
  clamp,
  concat,
  constant,
  div,
  dropoutMask,
  evaluate,
  exp,
  expand,
  full,
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
  Parameter,
  pad,
  reshape,
  rotaryEmbedding,
  scalar,
  scatterAdd,
  slice,
  softmax,
  split,
  stack,
  stopGradient,
  sum,
  swiglu,
  type Tensor,
  takeAlong,
  transpose,
  tril,
  where,
} from "../../src/tensor/index.js";
import { ModelError } from "../../src/util/errors.js";

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
  [() => add(i(2), 0.5), "add: 0.5 is no int32: cast the tensor first (inputs: int32[2])"],
  [() => less(2 ** 31, i(2)), "less: 2147483648 is no int32: cast the tensor first (inputs: int32[2])"],
  [() => where(b(2), b(2), 2), "where: 2 is no bool: cast the tensor first (inputs: bool[2])"],
  [() => scalar(0.5, "int32"), "scalar: 0.5 is no int32: choose another dtype"],
  [() => full([2], Number.NaN, "bool"), "full: NaN is no bool: choose another dtype"],
  [() => pad(i(2), [1], [0], 1.5), "pad: 1.5 is no int32: cast the tensor first (inputs: int32[2])"],
  [
    () => linearCrossEntropy(f(4, 2), f(3, 2), i(4), { ignoreIndex: 0.5 }),
    "linearCrossEntropy: 0.5 is no int32: labels are int32, so this one can never occur (inputs: float32[4, 2], float32[3, 2], int32[4])",
  ],
  [() => add(f(2), undefined as never), "add: input 2 must be a tensor or a number, got undefined"],
  [() => where(b(2), null as never, 1), "where: input 2 must be a tensor or a number, got null"],
  [() => where([true] as never, 1, f(2)), "where: input 1 must be a tensor, got an array"],
  [() => exp(3 as never), "exp: input 1 must be a tensor, got 3"],
  [() => sum([1, 2] as never), "sum: input 1 must be a tensor, got an array"],
  [() => reshape(undefined as never, [1]), "reshape: input 1 must be a tensor, got undefined"],
  [() => gather(f(2), new Int32Array(1) as never), "gather: input 2 must be a tensor, got Int32Array"],
  [() => concat([f(2), undefined as never], 0), "concat: input 2 must be a tensor, got undefined"],
  [() => stack(f(2) as never), "stack: needs a list of tensors, got Tensor"],
  [
    () => attention(f(2, 1, 1, 2), undefined as never, f(2, 1, 1, 2)),
    "attention: input 2 must be a tensor, got undefined",
  ],
  [
    () => reshape(f(4), [-2, -2]),
    "reshape: every extent must be an integer not below 0, got [-2, -2] (inputs: float32[4])",
  ],
  [
    () => reshape(f(3), [-1, 0.5]),
    "reshape: every extent must be an integer not below 0, got [6, 0.5] (inputs: float32[3])",
  ],
  [
    () => expand(f(1), [-1]),
    "expand: every extent must be an integer not below 0, got [-1] (inputs: float32[1])",
  ],
  [
    () => input("x", [2, undefined as never], "float32"),
    "input: every extent must be an integer not below 0, got [2, undefined]",
  ],
  [() => full([1.5], 0), "full: every extent must be an integer not below 0, got [1.5]"],
  [() => iota(1.5), "iota: size 1.5 is not a count"],
  [
    () => dropoutMask(i(2), [-3], 0.5, 0),
    "dropoutMask: every extent must be an integer not below 0, got [-3] (inputs: int32[2])",
  ],
  [
    () => constant({ dtype: "float32", shape: [2, 2], data: new Float32Array(3) }),
    "constant: shape [2, 2] holds 4 values, the array 3",
  ],
  [
    () => constant({ dtype: "int32", shape: [2], data: new Float32Array(2) }),
    "constant: a Float32Array cannot hold int32 values",
  ],
  [
    () => constant({ dtype: "int32", shape: [-1], data: new Int32Array(1) }),
    "constant: every extent must be an integer not below 0, got [-1]",
  ],
  [
    () => {
      const mask = f(1, 1, 2, 2);
      const x = f(2, 1, 1, 2);
      return grad(sum(attention(x, x, x, { dropoutMask: mask })), [mask]);
    },
    "attention: has no gradient by its dropout mask: pass the mask through stopGradient, or compose attention from matmul and softmax (inputs: float32[2, 1, 1, 2], float32[2, 1, 1, 2], float32[2, 1, 1, 2], float32[1, 1, 2, 2])",
  ],
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

test("a mask that is stopped or compared needs no gradient", () => {
  const [x, a] = [input("x", [2, 1, 1, 2], "float32"), input("a", [1, 1, 2, 2], "float32")];
  const stopped = attention(x, x, x, { dropoutMask: stopGradient(a) });
  const compared = attention(x, x, x, { dropoutMask: cast(less(a, 0), "float32") });
  for (const y of [stopped, compared]) {
    const [byA] = grad(sum(y), [a, x]);
    expect(new Set(evaluate(byA!).data)).toEqual(new Set([0]));
  }
});

test.each([
  [
    "a length",
    () => new Parameter([2, 2], { data: new Float32Array(3) }),
    "parameter.data",
    "[2, 2] takes a Float32Array of 4 values, got Float32Array of length 3",
  ],
  [
    "a later length",
    () => {
      new Parameter([2]).data = new Float32Array(1);
    },
    "parameter.data",
    "[2] takes a Float32Array of 2 values, got Float32Array of length 1",
  ],
  [
    "another array",
    () => {
      new Parameter([2]).data = new Float64Array(2) as never;
    },
    "parameter.data",
    "got Float64Array of length 2",
  ],
  [
    "a shape",
    () => new Parameter([2, -1]),
    "parameter.shape",
    "must consist of integers not below 0, got [2, -1]",
  ],
])("a parameter refuses %s that does not fit", (_, make, code, message) => {
  const error = caught(make);
  expect(error).toBeInstanceOf(ModelError);
  expect(error.code).toBe(code);
  expect(error.message).toContain(message);
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
