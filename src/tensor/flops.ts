// Floating-point operations of a graph's matrix products (2 per multiply-add), the base of MFU. Everything
// else is a small remainder and not counted.

import type { OpParams } from "./ops/params.js";
import { sizeOf } from "./shape.js";
import type { Graph, GraphNode } from "./trace/graph.js";

export function countFlops(graph: Graph): number {
  let total = 0;
  for (const node of graph.nodes) {
    const shape = (i: number) => graph.values[node.inputs[i]!]!.shape;
    if (node.op === "matmul" || node.op === "matmulAdd") {
      const { transA } = node.params as OpParams["matmul"];
      const inner = transA ? shape(0).at(-2)! : shape(0).at(-1)!;
      total += 2 * inner * sizeOf(graph.values[node.outputs[0]!]!.shape);
    } else if (node.op === "attention") total += 2 * attentionProduct(node, shape);
    else if (node.op === "attentionGrad") total += 4 * attentionProduct(node, shape);
    else if (node.op === "linearCrossEntropy") {
      const products = graph.outputs.some((o) => o.name.startsWith("grad.")) ? 3 : 1;
      total += products * 2 * sizeOf(shape(0)) * shape(1)[0]!;
    }
  }
  return total;
}

/** One product of scores size: the keys that a causal block skips are not computed, so not counted. */
function attentionProduct(node: GraphNode, shape: (i: number) => readonly number[]): number {
  const { causal, blocks } = node.params as OpParams["attention"];
  const share = causal ? (blocks + 1) / (2 * blocks) : 1;
  return 2 * sizeOf(shape(0)) * shape(1)[0]! * share;
}
