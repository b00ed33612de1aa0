// What a shape rule is: from operand types and parameters to result types, or a complaint.

import { type DType, isFloating } from "../dtype.js";
import { operatorError } from "../errors.js";
import { broadcastShapes, formatShape, type Shape } from "../shape.js";
import { Tensor, type ValueType } from "../tensor.js";
import type { OpName, OpParams } from "./params.js";

export type ShapeRule<K extends OpName> = (
  params: OpParams[K],
  inputs: readonly Tensor[],
  op: K,
) => ValueType[];

/** Refuses operands that are none: callers without type checks pass undefined, arrays and numbers. */
export function requireTensors(op: string, inputs: readonly unknown[]): void {
  if (!Array.isArray(inputs)) throw operatorError(op, `needs a list of tensors, got ${describe(inputs)}`);
  // A plain loop: holes of a sparse list count as well.
  for (let i = 0; i < inputs.length; i++)
    if (!(inputs[i] instanceof Tensor))
      throw operatorError(op, `input ${i + 1} must be a tensor, got ${describe(inputs[i])}`);
}

/** What a value is, for messages about operands that are no tensors. */
export function describe(value: unknown): string {
  if (Array.isArray(value)) return "an array";
  if (typeof value === "object" && value !== null) return value.constructor?.name ?? "an object";
  return typeof value === "function" ? "a function" : String(value);
}

/** Refuses a number that `dtype` cannot hold; floats round, integers and bools never truncate. */
export function requireNumber(
  op: string,
  value: number,
  dtype: DType,
  remedy: string,
  inputs: readonly Tensor[] = [],
): void {
  if (typeof value !== "number") throw operatorError(op, `needs a number, got ${describe(value)}`, inputs);
  const fits = isFloating(dtype) || (dtype === "int32" ? value === (value | 0) : value === 0 || value === 1);
  if (!fits) throw operatorError(op, `${value} is no ${dtype}: ${remedy}`, inputs);
}

/** The operands of an operator that takes exactly `count`. */
export function operands(op: string, inputs: readonly Tensor[], count: number): readonly Tensor[] {
  if (inputs.length !== count) throw operatorError(op, `takes ${count} inputs, got ${inputs.length}`, inputs);
  return inputs;
}

export function requireFloating(op: string, inputs: readonly Tensor[]): void {
  for (const t of inputs)
    if (!isFloating(t.dtype))
      throw operatorError(op, `needs floating-point input, got ${t.dtype}: cast it first`, inputs);
}

export function requireDtype(
  op: string,
  what: string,
  t: Tensor,
  dtype: string,
  inputs: readonly Tensor[],
): void {
  if (t.dtype !== dtype) throw operatorError(op, `${what} must be ${dtype}, got ${t.dtype}`, inputs);
}

export function requireSameDtype(op: string, inputs: readonly Tensor[]): void {
  const first = inputs[0];
  for (const t of inputs)
    if (first && t.dtype !== first.dtype)
      throw operatorError(op, `dtypes ${first.dtype} and ${t.dtype} differ: cast one of them`, inputs);
}

export function requireRank(
  op: string,
  what: string,
  t: Tensor,
  rank: number,
  inputs: readonly Tensor[],
): void {
  if (t.rank !== rank)
    throw operatorError(op, `${what} must have rank ${rank}, got ${formatShape(t.shape)}`, inputs);
}

export function requireShape(
  op: string,
  what: string,
  t: Tensor,
  shape: Shape,
  inputs: readonly Tensor[],
): void {
  if (t.shape.length !== shape.length || t.shape.some((n, i) => n !== shape[i]))
    throw operatorError(
      op,
      `${what} must have shape ${formatShape(shape)}, got ${formatShape(t.shape)}`,
      inputs,
    );
}

/** Broadcast of all inputs' shapes, or an error that names the two that do not fit. */
export function broadcastAll(op: string, inputs: readonly Tensor[]): number[] {
  let shape: number[] = [];
  for (const t of inputs) {
    const next = broadcastShapes(shape, t.shape);
    if (!next)
      throw operatorError(
        op,
        `shapes ${formatShape(shape)} and ${formatShape(t.shape)} do not broadcast`,
        inputs,
      );
    shape = next;
  }
  return shape;
}
