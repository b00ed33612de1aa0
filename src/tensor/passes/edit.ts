// What the passes share: facts about a graph that several ask for, and the one way to build a changed copy.
// Passes never renumber values (only dead-code elimination does) and never touch a graph's inputs, so feeds
// and output names stay valid.

import type { TensorData } from "../dtype.js";
import type { OpName } from "../ops/params.js";
import type { Graph, GraphNode, ValueId } from "../trace/graph.js";

/** A pure function from a graph to one that computes the same; the very same object when nothing changed. */
export type Pass = (graph: Graph) => Graph;

/** Constants by value id. */
export function constantsOf(graph: Graph): Map<ValueId, TensorData> {
  return new Map(graph.constants.map(({ value, data }) => [value, data]));
}

/** How often each value is read, by nodes and as an output. */
export function countUses(graph: Graph): Int32Array {
  const uses = new Int32Array(graph.values.length);
  for (const node of graph.nodes) for (const id of node.inputs) uses[id]!++;
  for (const { value } of graph.outputs) uses[value]!++;
  return uses;
}

/** Substitutions of values by equal ones, applied while a pass walks the nodes in order. */
export class Substitution {
  private readonly replaced = new Map<ValueId, ValueId>();

  get isEmpty(): boolean {
    return this.replaced.size === 0;
  }

  set(from: ValueId, to: ValueId): void {
    this.replaced.set(from, this.of(to));
  }

  /** What stands for `id` now. Targets are resolved when they are set, so one step suffices. */
  of(id: ValueId): ValueId {
    return this.replaced.get(id) ?? id;
  }

  /** `node` reading the substitutes; itself when none of its inputs was replaced. */
  in(node: GraphNode): GraphNode {
    if (this.isEmpty || !node.inputs.some((id) => this.replaced.has(id))) return node;
    return { ...node, inputs: node.inputs.map((id) => this.of(id)) };
  }

  inOutputs(outputs: Graph["outputs"]): Graph["outputs"] {
    if (this.isEmpty) return outputs;
    return outputs.map(({ name, value }) => ({ name, value: this.of(value) }));
  }
}

/** Whether `node` is an `op`, narrowing its parameters. */
export function isOp<K extends OpName>(node: GraphNode | undefined, op: K): node is GraphNode<K> {
  return node?.op === op;
}
