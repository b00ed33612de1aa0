// ONNX lowerings of the elementwise operators.

import type { OpName } from "../../../ops/params.js";
import { elementTypeOf } from "../builder.js";
import type { Lowering } from "../lowering.js";

/** One ONNX operator with the same operands. */
const direct =
  <K extends OpName>(opType: string): Lowering<K> =>
  ({ b, inputs }) => [
    b.emit(
      opType,
      inputs.map((t) => t.name),
    ),
  ];

export const elementwiseLowerings = {
  neg: direct("Neg"),
  exp: direct("Exp"),
  log: direct("Log"),
  sqrt: direct("Sqrt"),
  rsqrt: ({ b, inputs }) => [b.emit("Reciprocal", [b.emit("Sqrt", [inputs[0]!.name])])],
  tanh: direct("Tanh"),
  sigmoid: direct("Sigmoid"),
  erf: direct("Erf"),
  sin: direct("Sin"),
  cos: direct("Cos"),
  abs: direct("Abs"),
  sign: direct("Sign"),
  relu: direct("Relu"),
  silu: ({ b, inputs }) => [b.emitMicrosoft("QuickGelu", [inputs[0]!.name], { alpha: { float: 1 } })],
  gelu: ({ b, params, inputs }) => [b.emit("Gelu", [inputs[0]!.name], { approximate: params.approximate })],
  logicalNot: direct("Not"),
  clamp: ({ b, params, inputs }) => [
    b.emit("Clip", [inputs[0]!.name, b.float(params.min), b.float(params.max)]),
  ],
  cast: ({ b, inputs, outputs }) => [
    b.emit("Cast", [inputs[0]!.name], { to: elementTypeOf(outputs[0]!.dtype) }),
  ],
  stopGradient: ({ inputs }) => [inputs[0]!.name],
  add: direct("Add"),
  sub: direct("Sub"),
  mul: direct("Mul"),
  div: direct("Div"),
  pow: direct("Pow"),
  minimum: direct("Min"),
  maximum: direct("Max"),
  equal: direct("Equal"),
  notEqual: ({ b, inputs }) => [
    b.emit("Not", [
      b.emit(
        "Equal",
        inputs.map((t) => t.name),
      ),
    ]),
  ],
  less: direct("Less"),
  lessEqual: direct("LessOrEqual"),
  greater: direct("Greater"),
  greaterEqual: direct("GreaterOrEqual"),
  logicalAnd: direct("And"),
  logicalOr: direct("Or"),
  where: direct("Where"),
} satisfies Partial<{ [K in OpName]: Lowering<K> }>;
