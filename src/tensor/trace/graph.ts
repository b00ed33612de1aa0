// A graph as plain data: what a recorded computation looks like once it leaves the model's thread.
// Contains no functions and no class instances, so it can be sent to a worker as it is.

import { invariant, ModelError } from "../../util/errors.js";
import type { DType, TensorData } from "../dtype.js";
import type { OpName, OpParams } from "../ops/params.js";
import type { Node, Tensor } from "../tensor.js";

/** Position in {@link Graph.values}. */
export type ValueId = number;

export interface GraphNode<K extends OpName = OpName> {
  readonly op: K;
  readonly params: OpParams[K];
  readonly inputs: readonly ValueId[];
  readonly outputs: readonly ValueId[];
}

export interface NamedValue {
  readonly name: string;
  readonly value: ValueId;
}

export interface Graph {
  readonly values: readonly { readonly shape: readonly number[]; readonly dtype: DType }[];
  /** In an order in which every node follows its inputs. */
  readonly nodes: readonly GraphNode[];
  /** What must be fed: batch fields, parameters, generator state. */
  readonly inputs: readonly NamedValue[];
  readonly constants: readonly { readonly value: ValueId; readonly data: TensorData }[];
  readonly outputs: readonly NamedValue[];
}

/**
 * Collects everything that `outputs` depend on into a Graph. `nameOf` gives the feed name of a parameter
 * leaf. Nodes that no output needs are left out; order follows creation, so it is deterministic.
 */
export function toGraph(
  outputs: Readonly<Record<string, Tensor>>,
  nameOf: (leaf: Tensor) => string | undefined = () => undefined,
): Graph {
  const order = reachable(Object.values(outputs));
  const values: { shape: readonly number[]; dtype: DType }[] = [];
  const first = new Map<Node, ValueId>();
  const inputs: NamedValue[] = [];
  const constants: { value: ValueId; data: TensorData }[] = [];
  const nodes: GraphNode[] = [];
  const idOf = (t: Tensor): ValueId => first.get(t.node)! + t.index;

  for (const node of order) {
    const base = values.length;
    first.set(node, base);
    values.push(...node.outputs.map(({ shape, dtype }) => ({ shape: [...shape], dtype })));
    if (node.op !== "leaf") {
      nodes.push({
        op: node.op,
        params: node.params,
        inputs: node.inputs.map(idOf),
        outputs: node.outputs.map((_, index) => base + index),
      });
    } else if (node.leaf?.kind === "constant") {
      constants.push({ value: base, data: node.leaf.data });
    } else {
      invariant(node.leaf, "a leaf has a kind");
      const name = node.leaf.kind === "input" ? node.leaf.name : nameOf(tensorOf(node));
      if (name === undefined)
        throw new ModelError(
          `a parameter of shape [${node.outputs[0]!.shape.join(", ")}] is used by the model but belongs to none of its modules: assign it to a module field`,
          { code: "model.unregistered_parameter" },
        );
      if (inputs.some((other) => other.name === name))
        throw new ModelError(`two inputs of the traced model are both named "${name}"`, {
          code: "model.duplicate_input",
        });
      inputs.push({ name, value: base });
    }
  }
  return {
    values,
    nodes,
    inputs,
    constants,
    outputs: Object.entries(outputs).map(([name, t]) => ({ name, value: idOf(t) })),
  };
}

const leafTensors = new WeakMap<Node, Tensor>();

/** Remembers the Tensor object of a leaf, so that identity-keyed tables (parameters) can find it again. */
export function registerLeaf(leaf: Tensor): void {
  leafTensors.set(leaf.node, leaf);
}

function tensorOf(node: Node): Tensor {
  const leaf = leafTensors.get(node);
  invariant(leaf, "a parameter leaf is registered when it is made");
  return leaf;
}

/** Nodes that `outputs` depend on, by ascending id. */
function reachable(outputs: readonly Tensor[]): Node[] {
  const seen = new Set<Node>();
  const stack = outputs.map((t) => t.node);
  for (let node = stack.pop(); node; node = stack.pop()) {
    if (seen.has(node)) continue;
    seen.add(node);
    for (const t of node.inputs) stack.push(t.node);
  }
  return [...seen].sort((a, b) => a.id - b.id);
}
