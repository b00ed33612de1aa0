// Reference kernels of the elementwise operators. NaN goes through minimum, maximum, relu and clamp; every
// ordered comparison with NaN is false. Casting a float outside int32's range (or NaN) to int32 is undefined.

import type { OpName } from "../../../ops/params.js";
import type { ReferenceKernel } from "../kernel.js";
import { erf, logistic } from "../special.js";
import { broadcastReader } from "../strided.js";

const unary =
  <K extends OpName>(f: (x: number) => number): ReferenceKernel<K> =>
  (_, [x]) => [Float64Array.from(x!.data, f)];

const binary =
  <K extends OpName>(f: (a: number, b: number) => number): ReferenceKernel<K> =>
  (_, [a, b], [type]) => {
    const { shape } = type!;
    const readA = broadcastReader(a!, shape);
    const readB = broadcastReader(b!, shape);
    return [fill(shape, (i) => f(readA(i), readB(i)))];
  };

const comparison = <K extends OpName>(holds: (a: number, b: number) => boolean): ReferenceKernel<K> =>
  binary((a, b) => (holds(a, b) ? 1 : 0));

function fill(shape: readonly number[], value: (i: number) => number): Float64Array {
  const result = new Float64Array(shape.reduce((size, extent) => size * extent, 1));
  for (let i = 0; i < result.length; i++) result[i] = value(i);
  return result;
}

const floatMul = binary<"mul">((a, b) => a * b);
/** A double cannot hold the product of two int32, of which the low 32 bits are wanted. */
const intMul = binary<"mul">((a, b) => Math.imul(a, b));

const gelu = {
  none: (x: number) => 0.5 * x * (1 + erf(x * Math.SQRT1_2)),
  tanh: (x: number) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))),
};

export const elementwiseKernels = {
  neg: unary((x) => -x),
  exp: unary(Math.exp),
  log: unary(Math.log),
  sqrt: unary(Math.sqrt),
  rsqrt: unary((x) => 1 / Math.sqrt(x)),
  tanh: unary(Math.tanh),
  sigmoid: unary(logistic),
  erf: unary(erf),
  sin: unary(Math.sin),
  cos: unary(Math.cos),
  abs: unary(Math.abs),
  sign: unary(Math.sign),
  relu: unary((x) => Math.max(x, 0)),
  silu: unary((x) => x * logistic(x)),
  gelu: ({ approximate }, [x]) => [Float64Array.from(x!.data, gelu[approximate])],
  logicalNot: unary((x) => 1 - x),
  clamp: ({ min, max }, [x]) => [Float64Array.from(x!.data, (v) => Math.min(Math.max(v, min), max))],
  cast: ({ dtype }, [x]) => {
    if (dtype === "bool") return [Float64Array.from(x!.data, (v) => (v === 0 ? 0 : 1))];
    return [Float64Array.from(x!.data, dtype === "int32" ? Math.trunc : (v) => v)];
  },
  stopGradient: unary((x) => x),
  add: binary((a, b) => a + b),
  sub: binary((a, b) => a - b),
  mul: (params, inputs, outputs) =>
    (outputs[0]!.dtype === "int32" ? intMul : floatMul)(params, inputs, outputs),
  div: binary((a, b) => a / b),
  pow: binary((a, b) => a ** b),
  minimum: binary(Math.min),
  maximum: binary(Math.max),
  equal: comparison((a, b) => a === b),
  notEqual: comparison((a, b) => a !== b),
  less: comparison((a, b) => a < b),
  lessEqual: comparison((a, b) => a <= b),
  greater: comparison((a, b) => a > b),
  greaterEqual: comparison((a, b) => a >= b),
  logicalAnd: comparison((a, b) => a !== 0 && b !== 0),
  logicalOr: comparison((a, b) => a !== 0 || b !== 0),
  where: (_, [condition, a, b], [type]) => {
    const { shape } = type!;
    const [readCondition, readA, readB] = [condition!, a!, b!].map((t) => broadcastReader(t, shape));
    return [fill(shape, (i) => (readCondition!(i) !== 0 ? readA!(i) : readB!(i)))];
  },
} satisfies Partial<{ [K in OpName]: ReferenceKernel<K> }>;
