// Shape and dtype rules of the elementwise operators.

import { isFloating } from "../../dtype.js";
import { operatorError } from "../../errors.js";
import type { ValueType } from "../../tensor.js";
import {
  broadcastAll,
  operands,
  requireDtype,
  requireFloating,
  requireSameDtype,
  type ShapeRule,
} from "../rule.js";

/** float → same float. */
const floatUnary = (_: object, inputs: Parameters<ShapeRule<"exp">>[1], op: string): ValueType[] => {
  const [x] = operands(op, inputs, 1);
  requireFloating(op, inputs);
  return [{ shape: x!.shape, dtype: x!.dtype }];
};

/** Any number type → the same. */
const numericUnary = (_: object, inputs: Parameters<ShapeRule<"neg">>[1], op: string): ValueType[] => {
  const [x] = operands(op, inputs, 1);
  if (x!.dtype === "bool") throw operatorError(op, "needs numbers, got bool: cast it first", inputs);
  return [{ shape: x!.shape, dtype: x!.dtype }];
};

const numericBinary = (_: object, inputs: Parameters<ShapeRule<"add">>[1], op: string): ValueType[] => {
  operands(op, inputs, 2);
  requireSameDtype(op, inputs);
  if (inputs[0]!.dtype === "bool") throw operatorError(op, "needs numbers, got bool: cast it first", inputs);
  return [{ shape: broadcastAll(op, inputs), dtype: inputs[0]!.dtype }];
};

const floatBinary = (params: object, inputs: Parameters<ShapeRule<"div">>[1], op: string): ValueType[] => {
  const types = numericBinary(params, inputs, op);
  requireFloating(op, inputs);
  return types;
};

const comparison = (params: object, inputs: Parameters<ShapeRule<"less">>[1], op: string): ValueType[] =>
  numericBinary(params, inputs, op).map((type) => ({ ...type, dtype: "bool" }));

const logicalBinary = (
  _: object,
  inputs: Parameters<ShapeRule<"logicalAnd">>[1],
  op: string,
): ValueType[] => {
  operands(op, inputs, 2);
  for (const t of inputs) requireDtype(op, "each input", t, "bool", inputs);
  return [{ shape: broadcastAll(op, inputs), dtype: "bool" }];
};

export const elementwiseRules = {
  neg: numericUnary,
  exp: floatUnary,
  log: floatUnary,
  sqrt: floatUnary,
  rsqrt: floatUnary,
  tanh: floatUnary,
  sigmoid: floatUnary,
  erf: floatUnary,
  sin: floatUnary,
  cos: floatUnary,
  abs: numericUnary,
  sign: numericUnary,
  relu: floatUnary,
  silu: floatUnary,
  gelu: floatUnary,
  logicalNot: (_, inputs, op) => {
    const [x] = operands(op, inputs, 1);
    requireDtype(op, "the input", x!, "bool", inputs);
    return [{ shape: x!.shape, dtype: "bool" }];
  },
  clamp: (params, inputs, op) => {
    if (!(params.min <= params.max))
      throw operatorError(op, `min ${params.min} must not exceed max ${params.max}`, inputs);
    return floatUnary(params, inputs, op);
  },
  cast: (params, inputs, op) => [{ shape: operands(op, inputs, 1)[0]!.shape, dtype: params.dtype }],
  stopGradient: (_, inputs, op) => {
    const [x] = operands(op, inputs, 1);
    return [{ shape: x!.shape, dtype: x!.dtype }];
  },
  add: numericBinary,
  sub: numericBinary,
  mul: numericBinary,
  div: floatBinary,
  pow: floatBinary,
  minimum: numericBinary,
  maximum: numericBinary,
  equal: comparison,
  notEqual: comparison,
  less: comparison,
  lessEqual: comparison,
  greater: comparison,
  greaterEqual: comparison,
  logicalAnd: logicalBinary,
  logicalOr: logicalBinary,
  where: (_, inputs, op) => {
    const [condition, a, b] = operands(op, inputs, 3);
    requireDtype(op, "the condition", condition!, "bool", inputs);
    if (a!.dtype !== b!.dtype)
      throw operatorError(op, `dtypes ${a!.dtype} and ${b!.dtype} of the two choices differ`, inputs);
    if (!isFloating(a!.dtype) && a!.dtype !== "int32")
      throw operatorError(op, `the choices must be numbers, got ${a!.dtype}`, inputs);
    return [{ shape: broadcastAll(op, inputs), dtype: a!.dtype }];
  },
} satisfies { [K in ElementwiseName]: ShapeRule<K> };

type ElementwiseName =
  | "neg"
  | "exp"
  | "log"
  | "sqrt"
  | "rsqrt"
  | "tanh"
  | "sigmoid"
  | "erf"
  | "sin"
  | "cos"
  | "abs"
  | "sign"
  | "relu"
  | "silu"
  | "gelu"
  | "logicalNot"
  | "clamp"
  | "cast"
  | "stopGradient"
  | "add"
  | "sub"
  | "mul"
  | "div"
  | "pow"
  | "minimum"
  | "maximum"
  | "equal"
  | "notEqual"
  | "less"
  | "lessEqual"
  | "greater"
  | "greaterEqual"
  | "logicalAnd"
  | "logicalOr"
  | "where";
