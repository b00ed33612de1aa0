// The whole table of shape rules: one row per primitive, and the one function that records a node.

import { Node, Tensor } from "../tensor.js";
import type { OpName, OpParams } from "./params.js";
import { requireTensors, type ShapeRule } from "./rule.js";
import { elementwiseRules } from "./rules/elementwise.js";
import { fusedRules } from "./rules/fused.js";
import { indexingRules } from "./rules/indexing.js";
import { linalgRules } from "./rules/linalg.js";
import { shapeRules as movementRules } from "./rules/shape.js";

export const shapeRules = {
  ...elementwiseRules,
  ...linalgRules,
  ...movementRules,
  ...indexingRules,
  ...fusedRules,
} satisfies { [K in OpName]: ShapeRule<K> };

/** Every primitive's name, in table order. */
export const opNames = Object.keys(shapeRules) as OpName[];

/** Records operator `op` and returns all its outputs. Throws OperatorError when the operands do not fit. */
export function applyAll<K extends OpName>(op: K, inputs: readonly Tensor[], params: OpParams[K]): Tensor[] {
  requireTensors(op, inputs);
  const rule = shapeRules[op] as unknown as ShapeRule<K>;
  const node = new Node(op, inputs, params, rule(params, inputs, op));
  return node.outputs.map((_, index) => new Tensor(node, index));
}

/** Records operator `op` and returns its first output. */
export function apply<K extends OpName>(op: K, inputs: readonly Tensor[], params: OpParams[K]): Tensor {
  return applyAll(op, inputs, params)[0]!;
}
