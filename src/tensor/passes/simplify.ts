// Rewrites that need no arithmetic: neutral operands, operators that undo or repeat each other, gradients that
// are scattered into zeros only to be added. Results stay equal, except for the sign of zero (x + 0) and the
// order in which scattered updates are added.

import type { TensorData } from "../dtype.js";
import type { OpName } from "../ops/params.js";
import { broadcastShapes, type Shape, sameShape } from "../shape.js";
import type { Graph, GraphNode, ValueId } from "../trace/graph.js";
import { constantsOf, countUses, isOp, type Pass, Substitution } from "./edit.js";

/** What a rewrite may ask about the graph around its node. */
interface Surroundings {
  shapeOf(id: ValueId): Shape;
  dtypeOf(id: ValueId): string;
  /** The node that computes a value, as rewritten so far. */
  producerOf(id: ValueId): GraphNode | undefined;
  /** Whether every element of the value is the constant `n`. */
  isAll(id: ValueId, n: number): boolean;
  usesOf(id: ValueId): number;
}

/** Another value that equals the result, another node that computes it, or undefined to leave it. */
type Rewrite = (node: GraphNode, around: Surroundings) => ValueId | GraphNode | undefined;

/** `candidate` if it has the type of the node's result (broadcasting may have made it larger). */
function ifSameType(
  candidate: ValueId,
  node: GraphNode,
  { shapeOf, dtypeOf }: Surroundings,
): ValueId | undefined {
  const result = node.outputs[0]!;
  return sameShape(shapeOf(candidate), shapeOf(result)) && dtypeOf(candidate) === dtypeOf(result)
    ? candidate
    : undefined;
}

/** Drops the operand that is all `neutral`: the second, or either where the operator commutes. */
const neutralOperand =
  (neutral: number, commutes: boolean): Rewrite =>
  (node, around) => {
    const [a, b] = node.inputs as [ValueId, ValueId];
    if (around.isAll(b, neutral)) {
      const kept = ifSameType(a, node, around);
      if (kept !== undefined) return kept;
    }
    return commutes && around.isAll(a, neutral) ? ifSameType(b, node, around) : undefined;
  };

/** f(f(x)) with a result that one f of x already gives. */
const outermost =
  (op: "reshape" | "expand"): Rewrite =>
  (node, around) => {
    const same = ifSameType(node.inputs[0]!, node, around);
    if (same !== undefined) return same;
    const inner = around.producerOf(node.inputs[0]!);
    return inner?.op === op ? { ...node, inputs: inner.inputs } : undefined;
  };

/** x + scatter(zeros, i, u) adds u to x directly, unless the scattered sum itself is wanted elsewhere. */
const scatterInto: Rewrite = (node, { producerOf, isAll, usesOf, shapeOf }) => {
  const [a, b] = node.inputs as [ValueId, ValueId];
  for (const [base, scattered] of [
    [a, b],
    [b, a],
  ] as const) {
    const scatter = producerOf(scattered);
    if (!isOp(scatter, "scatterAdd") && !isOp(scatter, "scatterAddAlong")) continue;
    const [zeros, indices, updates] = scatter.inputs as [ValueId, ValueId, ValueId];
    if (usesOf(scattered) === 1 && isAll(zeros, 0) && sameShape(shapeOf(base), shapeOf(zeros)))
      return { ...scatter, inputs: [base, indices, updates], outputs: node.outputs } as GraphNode;
  }
  return undefined;
};

const rewrites: { readonly [K in OpName]?: readonly Rewrite[] } = {
  add: [neutralOperand(0, true), scatterInto],
  sub: [neutralOperand(0, false)],
  mul: [neutralOperand(1, true)],
  div: [neutralOperand(1, false)],
  neg: [
    (node, { producerOf }) => {
      const inner = producerOf(node.inputs[0]!);
      return inner?.op === "neg" ? inner.inputs[0] : undefined;
    },
  ],
  cast: [(node, around) => ifSameType(node.inputs[0]!, node, around)],
  stopGradient: [(node) => node.inputs[0]],
  reshape: [outermost("reshape")],
  expand: [outermost("expand")],
  transpose: [
    (node, { producerOf }) => {
      const { perm } = (node as GraphNode<"transpose">).params;
      if (perm.every((axis, i) => axis === i)) return node.inputs[0];
      const inner = producerOf(node.inputs[0]!);
      if (!isOp(inner, "transpose")) return undefined;
      return {
        ...node,
        inputs: inner.inputs,
        params: { perm: perm.map((axis) => inner.params.perm[axis]!) },
      };
    },
  ],
};

/** Operators that repeat their operands themselves. */
const broadcasting: ReadonlySet<OpName> = new Set([
  "add",
  "sub",
  "mul",
  "div",
  "pow",
  "minimum",
  "maximum",
  "equal",
  "notEqual",
  "less",
  "lessEqual",
  "greater",
  "greaterEqual",
  "logicalAnd",
  "logicalOr",
  "where",
]);

/** Reads what was expanded in place of its expansion, where broadcasting repeats it anyway. */
const withoutExpand: Rewrite = (node, { producerOf, shapeOf }) => {
  for (let i = 0; i < node.inputs.length; i++) {
    const source = producerOf(node.inputs[i]!);
    if (source?.op !== "expand") continue;
    const inputs = node.inputs.map((id, j) => (j === i ? source.inputs[0]! : id));
    const shape = inputs.reduce<Shape | undefined>((s, id) => s && broadcastShapes(s, shapeOf(id)), []);
    if (shape && sameShape(shape, shapeOf(node.outputs[0]!))) return { ...node, inputs };
  }
  return undefined;
};

export const simplify: Pass = (graph) => {
  const substitution = new Substitution();
  const producers = new Map<ValueId, GraphNode>();
  const around = surroundings(graph, producers);
  const nodes: GraphNode[] = [];
  let isChanged = false;
  for (const original of graph.nodes) {
    const result = rewriteFully(substitution.in(original), around);
    if (typeof result === "number") {
      substitution.set(original.outputs[0]!, result);
      isChanged = true;
      continue;
    }
    isChanged ||= result !== original;
    nodes.push(result);
    for (const id of result.outputs) producers.set(id, result);
  }
  return isChanged ? { ...graph, nodes, outputs: substitution.inOutputs(graph.outputs) } : graph;
};

/** Applies the node's rewrites until none fits. Each one drops or passes by a node, so this ends. */
function rewriteFully(node: GraphNode, around: Surroundings): GraphNode | ValueId {
  for (;;) {
    const next = firstRewrite(node, around);
    if (next === undefined) return node;
    if (typeof next === "number") return next;
    node = next;
  }
}

function firstRewrite(node: GraphNode, around: Surroundings): GraphNode | ValueId | undefined {
  for (const rewrite of rewrites[node.op] ?? []) {
    const next = rewrite(node, around);
    if (next !== undefined) return next;
  }
  return broadcasting.has(node.op) ? withoutExpand(node, around) : undefined;
}

function surroundings(graph: Graph, producers: ReadonlyMap<ValueId, GraphNode>): Surroundings {
  const constants = constantsOf(graph);
  const uses = countUses(graph);
  const single = ({ data }: TensorData) => (data.length === 1 ? data[0] : undefined);
  const isAll = (id: ValueId, n: number): boolean => {
    const data = constants.get(id);
    if (data) return single(data) === n;
    const producer = producers.get(id);
    return (producer?.op === "expand" || producer?.op === "reshape") && isAll(producer.inputs[0]!, n);
  };
  return {
    shapeOf: (id) => graph.values[id]!.shape,
    dtypeOf: (id) => graph.values[id]!.dtype,
    producerOf: (id) => producers.get(id),
    isAll,
    usesOf: (id) => uses[id]!,
  };
}
