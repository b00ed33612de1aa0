// Joins a matrix product with the addition that follows it, where the addend has the product's own shape (the
// residual stream, a sum of gradients): one operator less, and one temporary of that size less.

import { sameShape } from "../shape.js";
import type { GraphNode, ValueId } from "../trace/graph.js";
import { countUses, isOp, type Pass } from "./edit.js";

export const fuseMatmulAdd: Pass = (graph) => {
  const uses = countUses(graph);
  const products = new Map<ValueId, { node: GraphNode<"matmul">; position: number }>();
  graph.nodes.forEach((node, position) => {
    if (isOp(node, "matmul") && canFuse(node)) products.set(node.outputs[0]!, { node, position });
  });
  function canFuse({ inputs, outputs, params }: GraphNode<"matmul">): boolean {
    const [a, b] = inputs as [ValueId, ValueId];
    const rank = (id: ValueId) => graph.values[id]!.shape.length;
    return uses[outputs[0]!] === 1 && rank(b) === 2 && (!params.transA || rank(a) === 2);
  }

  const fused = new Set<GraphNode>();
  const nodes = graph.nodes.map((node): GraphNode => {
    if (node.op !== "add") return node;
    // Of two products the later one is fused, so that a sum of products becomes a chain in program order.
    const [x, y] = node.inputs.map((id) => ({ id, product: products.get(id) })) as [Operand, Operand];
    const [taken, addend] = (x.product?.position ?? -1) > (y.product?.position ?? -1) ? [x, y] : [y, x];
    if (!taken.product) return node;
    if (!sameShape(graph.values[addend.id]!.shape, graph.values[taken.id]!.shape)) return node;
    fused.add(taken.product.node);
    const { inputs, params } = taken.product.node;
    return { op: "matmulAdd", params, inputs: [...inputs, addend.id], outputs: node.outputs };
  });
  return fused.size === 0 ? graph : { ...graph, nodes: nodes.filter((node) => !fused.has(node)) };
};

interface Operand {
  id: ValueId;
  product: { node: GraphNode<"matmul">; position: number } | undefined;
}
