// How much memory a graph needs while it runs, beside its inputs and its results: the values that are alive at once, in
// the order of its nodes, and the scratch of the two operators that have some. An estimate: a runtime may keep memory
// that it has freed, and may reuse it better.

import { sizeOf } from "./shape.js";
import type { Graph, GraphNode, ValueId } from "./trace/graph.js";

const bytesOf = { float64: 8, float32: 4, int32: 4, float16: 2, bool: 1 } as const;

/** Other views of the same memory. */
const views: ReadonlySet<string> = new Set(["reshape"]);
/** These read and write elsewhere; all others may put a result where an input was that nobody needs any more. */
const needsRoom =
  /^(?:matmul|attention|linearCrossEntropy|transpose|concat|gather|scatter|expand|split|slice|pad)/;

export function peakActivationBytes(graph: Graph): number {
  const sizeBytes = graph.values.map(({ shape, dtype }) => sizeOf(shape) * bytesOf[dtype]);
  const owner = graph.values.map((_, id) => id);
  for (const { op, inputs, outputs } of graph.nodes)
    if (views.has(op)) owner[outputs[0]!] = owner[inputs[0]!]!;
  const given = new Set([...graph.inputs, ...graph.constants].map(({ value }) => value));
  // Results are handed in from outside, like inputs.
  for (const { value } of graph.outputs) given.add(owner[value]!);

  const lastUse = new Map<ValueId, number>();
  for (const [index, { inputs, outputs }] of graph.nodes.entries())
    for (const value of [...inputs, ...outputs]) lastUse.set(owner[value]!, index);

  const alive = new Set<ValueId>();
  let live = 0;
  let peak = 0;
  for (const [index, node] of graph.nodes.entries()) {
    const begin = () => {
      for (const value of node.outputs.map((output) => owner[output]!)) {
        if (given.has(value) || alive.has(value)) continue;
        alive.add(value);
        live += sizeBytes[value]!;
      }
    };
    const end = () => {
      for (const value of new Set([...node.inputs, ...node.outputs].map((id) => owner[id]!)))
        if (lastUse.get(value) === index && alive.delete(value)) live -= sizeBytes[value]!;
    };
    if (needsRoom.test(node.op)) {
      begin();
      peak = Math.max(peak, live + scratchBytes(graph, node));
      end();
    } else {
      // Inputs that end here are gone before the result counts.
      for (const value of new Set(node.inputs.map((id) => owner[id]!)))
        if (lastUse.get(value) === index && alive.delete(value)) live -= sizeBytes[value]!;
      begin();
      peak = Math.max(peak, live);
      end();
    }
  }
  return peak;
}

/** What the lowering of a node holds while it runs: scores of one block, or logits and probabilities of one run. */
function scratchBytes(graph: Graph, { op, params, inputs, outputs }: GraphNode): number {
  const shape = (i: number) => graph.values[inputs[i]!]!.shape;
  if (op === "linearCrossEntropy") {
    const { chunks } = params as { chunks: number };
    const [tokens, [vocab, width]] = [shape(0)[0]!, shape(1) as [number, number]];
    return 4 * ((2 * tokens * vocab) / chunks + vocab * width);
  }
  if (op !== "attention" && op !== "attentionGrad") return 0;
  // The probabilities of a block are values of the graph, and the largest ones there.
  const largest = Math.max(...[...inputs, ...outputs].map((id) => sizeOf(graph.values[id]!.shape)));
  return 4 * largest * (op === "attention" ? 1 : 2);
}
