// Gradient rules of the elementwise operators.

import { isFloating } from "../../dtype.js";
import {
  add,
  cast,
  cos,
  div,
  equal,
  erf,
  exp,
  full,
  greater,
  greaterEqual,
  less,
  lessEqual,
  log,
  logicalAnd,
  mul,
  neg,
  pow,
  sigmoid,
  sign,
  sin,
  sub,
  tanh,
  where,
} from "../../functions/elementwise.js";
import type { OpName } from "../../ops/params.js";
import type { Tensor } from "../../tensor.js";
import { type GradientContext, type GradientRule, sumTo } from "../rule.js";

/** A rule for y = f(x): `derivative(x, y)` is multiplied with the incoming gradient. */
const unary =
  <K extends OpName>(derivative: (x: Tensor, y: Tensor) => Tensor): GradientRule<K> =>
  ({ inputs, outputs, grads }) => [mul(grads[0]!, derivative(inputs[0]!, outputs[0]!))];

const none = <K extends OpName>({ inputs }: GradientContext<K>) => inputs.map(() => undefined);

/** Gradient of min/max of two operands: whole to the chosen one, half each at a tie. */
const choice =
  <K extends "minimum" | "maximum">(chosen: (a: Tensor, b: Tensor) => Tensor): GradientRule<K> =>
  ({ inputs, grads }) => {
    const [a, b] = inputs as [Tensor, Tensor];
    const g = grads[0]!;
    const tie = equal(a, b);
    const half = mul(g, 0.5);
    return [
      sumTo(where(tie, half, where(chosen(a, b), g, 0)), a.shape),
      sumTo(where(tie, half, where(chosen(b, a), g, 0)), b.shape),
    ];
  };

export const elementwiseGradients = {
  neg: ({ grads }) => [neg(grads[0]!)],
  exp: unary((_, y) => y),
  log: ({ inputs, grads }) => [div(grads[0]!, inputs[0]!)],
  sqrt: ({ outputs, grads }) => [div(mul(grads[0]!, 0.5), outputs[0]!)],
  rsqrt: unary((_, y) => mul(mul(mul(y, y), y), -0.5)),
  tanh: unary((_, y) => sub(1, mul(y, y))),
  sigmoid: unary((_, y) => mul(y, sub(1, y))),
  erf: unary((x) => mul(exp(neg(mul(x, x))), 2 / Math.sqrt(Math.PI))),
  sin: unary((x) => cos(x)),
  cos: unary((x) => neg(sin(x))),
  abs: unary((x) => sign(x)),
  sign: none,
  relu: ({ inputs, grads }) => [where(greater(inputs[0]!, 0), grads[0]!, 0)],
  silu: unary((x) => {
    const s = sigmoid(x);
    return mul(s, add(1, mul(x, sub(1, s))));
  }),
  gelu: ({ params, inputs, grads }) => {
    const x = inputs[0]!;
    if (params.approximate === "none") {
      const cdf = mul(add(erf(mul(x, Math.SQRT1_2)), 1), 0.5);
      const density = mul(exp(mul(mul(x, x), -0.5)), 1 / Math.sqrt(2 * Math.PI));
      return [mul(grads[0]!, add(cdf, mul(x, density)))];
    }
    const c = Math.sqrt(2 / Math.PI);
    const t = tanh(mul(mul(x, add(mul(mul(x, x), 0.044715), 1)), c));
    const inner = mul(add(mul(mul(x, x), 3 * 0.044715), 1), c);
    const slope = add(mul(add(t, 1), 0.5), mul(mul(mul(x, sub(1, mul(t, t))), inner), 0.5));
    return [mul(grads[0]!, slope)];
  },
  logicalNot: none,
  clamp: ({ params, inputs, grads }) => {
    const x = inputs[0]!;
    return [where(logicalAnd(greaterEqual(x, params.min), lessEqual(x, params.max)), grads[0]!, 0)];
  },
  cast: ({ inputs, outputs, grads }) => [
    isFloating(inputs[0]!.dtype) && isFloating(outputs[0]!.dtype)
      ? cast(grads[0]!, inputs[0]!.dtype)
      : undefined,
  ],
  stopGradient: none,
  add: ({ inputs, grads }) => [sumTo(grads[0]!, inputs[0]!.shape), sumTo(grads[0]!, inputs[1]!.shape)],
  sub: ({ inputs, grads }) => [sumTo(grads[0]!, inputs[0]!.shape), neg(sumTo(grads[0]!, inputs[1]!.shape))],
  mul: ({ inputs, grads }) => [
    sumTo(mul(grads[0]!, inputs[1]!), inputs[0]!.shape),
    sumTo(mul(grads[0]!, inputs[0]!), inputs[1]!.shape),
  ],
  div: ({ inputs, outputs, grads }) => {
    const quotient = div(grads[0]!, inputs[1]!);
    return [sumTo(quotient, inputs[0]!.shape), neg(sumTo(mul(quotient, outputs[0]!), inputs[1]!.shape))];
  },
  pow: ({ inputs, outputs, grads, needs }) => {
    const [a, b] = inputs as [Tensor, Tensor];
    const g = grads[0]!;
    const logOrZero = () => where(greater(a, 0), log(where(greater(a, 0), a, 1)), 0);
    return [
      // A constant (b = 0) has slope 0 even at a = 0, where a^(−1) is infinite.
      needs[0] ? sumTo(mul(g, where(equal(b, 0), 0, mul(b, pow(a, sub(b, 1))))), a.shape) : undefined,
      needs[1] ? sumTo(mul(g, mul(outputs[0]!, logOrZero())), b.shape) : undefined,
    ];
  },
  minimum: choice(less),
  maximum: choice(greater),
  equal: none,
  notEqual: none,
  less: none,
  lessEqual: none,
  greater: none,
  greaterEqual: none,
  logicalAnd: none,
  logicalOr: none,
  where: ({ inputs, grads }) => {
    const [condition, a, b] = inputs as [Tensor, Tensor, Tensor];
    const g = grads[0]!;
    const zero = full([], 0, g.dtype);
    return [undefined, sumTo(where(condition, g, zero), a.shape), sumTo(where(condition, zero, g), b.shape)];
  },
} satisfies Partial<{ [K in OpName]: GradientRule<K> }>;
