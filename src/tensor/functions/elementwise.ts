// Elementwise functions on tensors. Two tensors broadcast by NumPy's rule and must have one dtype; a plain
// number takes the other operand's dtype.

import { allocate, type DType } from "../dtype.js";
import { operatorError, requireExtents } from "../errors.js";
import { describe, requireNumber, requireTensors } from "../ops/rule.js";
import { apply } from "../ops/shape-rules.js";
import { constant, Tensor } from "../tensor.js";

export type Operand = Tensor | number;

/** A rank-0 constant of `dtype`. Throws OperatorError for a number that `dtype` cannot hold. */
export function scalar(value: number, dtype: DType = "float32"): Tensor {
  requireNumber("scalar", value, dtype, "choose another dtype");
  const data = allocate(dtype, 1);
  data[0] = value;
  return constant({ dtype, shape: [], data });
}

/** A constant `value` of `shape` (stored once, repeated by broadcasting). */
export function full(shape: readonly number[], value: number, dtype: DType = "float32"): Tensor {
  requireExtents("full", shape);
  requireNumber("full", value, dtype, "choose another dtype");
  return shape.length === 0
    ? scalar(value, dtype)
    : apply("expand", [scalar(value, dtype)], { shape: [...shape] });
}

export function zeros(shape: readonly number[], dtype: DType = "float32"): Tensor {
  return full(shape, 0, dtype);
}

/** Both operands as tensors. `first` is the place of `a` among the operator's inputs, for messages. */
function pair(op: string, a: Operand, b: Operand, first = 1): [Tensor, Tensor] {
  for (const [i, operand] of [a, b].entries())
    if (typeof operand !== "number" && !(operand instanceof Tensor))
      throw operatorError(op, `input ${first + i} must be a tensor or a number, got ${describe(operand)}`);
  if (typeof a === "number" && typeof b === "number") throw operatorError(op, "one operand must be a tensor");
  if (typeof a === "number") return [numberLike(op, a, b as Tensor), b as Tensor];
  if (typeof b === "number") return [a, numberLike(op, b, a)];
  return [a, b];
}

/** `value` in the dtype of the other operand. */
function numberLike(op: string, value: number, other: Tensor): Tensor {
  requireNumber(op, value, other.dtype, "cast the tensor first", [other]);
  return scalar(value, other.dtype);
}

type BinaryName =
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
  | "greaterEqual";
const binary =
  (op: BinaryName) =>
  (a: Operand, b: Operand): Tensor =>
    apply(op, pair(op, a, b), {});

export const add = binary("add");
export const sub = binary("sub");
export const mul = binary("mul");
export const div = binary("div");
/** a to the power b. */
export const pow = binary("pow");
export const minimum = binary("minimum");
export const maximum = binary("maximum");
export const equal = binary("equal");
export const notEqual = binary("notEqual");
export const less = binary("less");
export const lessEqual = binary("lessEqual");
export const greater = binary("greater");
export const greaterEqual = binary("greaterEqual");

export const neg = (x: Tensor): Tensor => apply("neg", [x], {});
export const exp = (x: Tensor): Tensor => apply("exp", [x], {});
export const log = (x: Tensor): Tensor => apply("log", [x], {});
export const sqrt = (x: Tensor): Tensor => apply("sqrt", [x], {});
/** 1 / sqrt(x). */
export const rsqrt = (x: Tensor): Tensor => apply("rsqrt", [x], {});
export const tanh = (x: Tensor): Tensor => apply("tanh", [x], {});
export const sigmoid = (x: Tensor): Tensor => apply("sigmoid", [x], {});
export const erf = (x: Tensor): Tensor => apply("erf", [x], {});
export const sin = (x: Tensor): Tensor => apply("sin", [x], {});
export const cos = (x: Tensor): Tensor => apply("cos", [x], {});
export const abs = (x: Tensor): Tensor => apply("abs", [x], {});
export const sign = (x: Tensor): Tensor => apply("sign", [x], {});
export const relu = (x: Tensor): Tensor => apply("relu", [x], {});
/** x · sigmoid(x). */
export const silu = (x: Tensor): Tensor => apply("silu", [x], {});
/** Gaussian error linear unit: exact with erf, or by its tanh approximation. */
export const gelu = (x: Tensor, approximate: "none" | "tanh" = "none"): Tensor =>
  apply("gelu", [x], { approximate });
export const logicalNot = (x: Tensor): Tensor => apply("logicalNot", [x], {});
export const logicalAnd = (a: Tensor, b: Tensor): Tensor => apply("logicalAnd", [a, b], {});
export const logicalOr = (a: Tensor, b: Tensor): Tensor => apply("logicalOr", [a, b], {});

/** x limited to [min, max]; the gradient passes where min ≤ x ≤ max. */
export const clamp = (x: Tensor, min: number, max: number): Tensor => apply("clamp", [x], { min, max });

/** Converts values to `dtype`; float to int truncates towards zero, anything to bool is "not zero". */
export function cast(x: Tensor, dtype: DType): Tensor {
  requireTensors("cast", [x]);
  return x.dtype === dtype ? x : apply("cast", [x], { dtype });
}

/** The same values, through which no gradient flows. */
export const stopGradient = (x: Tensor): Tensor => apply("stopGradient", [x], {});

/** `a` where `condition` holds, else `b`. A number takes the other choice's dtype. */
export function where(condition: Tensor, a: Operand, b: Operand): Tensor {
  return apply("where", [condition, ...pair("where", a, b, 2)], {});
}
