// Computes nodes that depend on constants alone, with the reference kernels and in the graph's own dtype.
// An `expand` of a constant stays a node (every backend repeats values more cheaply than it stores them), but
// what is computed from it is folded.

import { evaluateNode } from "../backends/reference/interpreter.js";
import type { TensorData } from "../dtype.js";
import { sizeOf } from "../shape.js";
import type { GraphNode, ValueId } from "../trace/graph.js";
import { constantsOf, type Pass } from "./edit.js";

/** Larger results are left to be computed: a stored constant costs memory for the whole run. */
const maxFoldedElements = 2 ** 20;

export const foldConstants: Pass = (graph) => {
  const known = constantsOf(graph);
  /** Nodes whose values are computed only when something is folded from them. */
  const deferred = new Map<ValueId, GraphNode>();
  const isKnown = (id: ValueId) => known.has(id) || deferred.has(id);
  const resolve = (id: ValueId): TensorData => {
    const value = known.get(id);
    if (value) return value;
    compute(deferred.get(id)!);
    return known.get(id)!;
  };
  const compute = (node: GraphNode) => {
    const results = evaluateNode(graph, node, node.inputs.map(resolve));
    node.outputs.forEach((id, index) => {
      known.set(id, results[index]!);
    });
  };

  const folded: ValueId[] = [];
  const nodes = graph.nodes.filter((node) => {
    if (node.op === "dropoutMask" || !node.inputs.every(isKnown)) return true;
    const isSmall = node.outputs.every((id) => sizeOf(graph.values[id]!.shape) <= maxFoldedElements);
    if (!isSmall) return true;
    if (node.op === "expand") {
      deferred.set(node.outputs[0]!, node);
      return true;
    }
    compute(node);
    folded.push(...node.outputs);
    return false;
  });
  if (folded.length === 0) return graph;
  return {
    ...graph,
    nodes,
    constants: [...graph.constants, ...folded.map((value) => ({ value, data: known.get(value)! }))],
  };
};
