// Runs a graph node by node with the reference kernels: slow, synchronous and obviously right. What the other
// backends are compared with, and what small tests and debugging use.

import { ModelError } from "../../../util/errors.js";
import type { TensorData } from "../../dtype.js";
import type { OpName } from "../../ops/params.js";
import { Parameter } from "../../parameter.js";
import type { Tensor } from "../../tensor.js";
import { type Graph, type GraphNode, toGraph } from "../../trace/graph.js";
import type { Backend, Feeds } from "../backend.js";
import { checkFeedsExactly, checkTarget } from "./feeds.js";
import { type ReferenceKernel, toStorage } from "./kernel.js";
import { kernels } from "./kernels.js";

/**
 * Values of all outputs, in arrays of their own. Throws ModelError when `feeds` are not exactly the graph's
 * inputs, or when an index lies out of range.
 */
export function evaluateGraph(graph: Graph, feeds: Feeds): Record<string, TensorData> {
  checkFeedsExactly(graph, feeds);
  const values = new Array<TensorData | undefined>(graph.values.length);
  for (const { name, value } of graph.inputs) values[value] = feeds[name]!;
  for (const { value, data } of graph.constants) values[value] = data;
  for (const node of graph.nodes) {
    const results = evaluateNode(
      graph,
      node,
      node.inputs.map((id) => values[id]!),
    );
    node.outputs.forEach((id, index) => {
      values[id] = results[index]!;
    });
  }
  return Object.fromEntries(
    graph.outputs.map(({ name, value }) => {
      const { dtype, shape, data } = values[value]!;
      return [name, { dtype, shape, data: data.slice() }];
    }),
  );
}

/** The outputs of one node for given operands. */
export function evaluateNode(graph: Graph, node: GraphNode, operands: readonly TensorData[]): TensorData[] {
  const types = node.outputs.map((id) => graph.values[id]!);
  const kernel = kernels[node.op] as unknown as ReferenceKernel<OpName>;
  return kernel(node.params, operands, types).map((values, index) => {
    const { dtype, shape } = types[index]!;
    return { dtype, shape, data: toStorage(dtype, values) };
  });
}

/** The interpreter behind the contract of all backends. */
export const referenceBackend: Backend = {
  name: "reference",
  async compile(graph) {
    let isClosed = false;
    return {
      async run(feeds, into = {}) {
        if (isClosed)
          throw new ModelError("this executable is closed: compile the graph again", {
            code: "backend.closed",
          });
        const results = evaluateGraph(graph, feeds);
        for (const [name, target] of Object.entries(into)) {
          const result = results[name];
          if (!result)
            throw new ModelError(`the graph has no output "${name}"`, { code: "backend.unknown_output" });
          checkTarget(name, target, result.shape, result.dtype);
          target.data.set(result.data);
          results[name] = target;
        }
        return results;
      },
      async close() {
        isClosed = true;
      },
    };
  },
};

/**
 * Values of recorded tensors at once, for tests and debugging. Parameters stand for their own data; every
 * other input must be in `feeds` under its name.
 */
export function evaluate(tensor: Tensor, feeds?: Feeds): TensorData;
export function evaluate(tensors: readonly Tensor[], feeds?: Feeds): TensorData[];
export function evaluate(wanted: Tensor | readonly Tensor[], feeds: Feeds = {}): TensorData | TensorData[] {
  const tensors = "node" in wanted ? [wanted] : wanted;
  const parameters: Record<string, TensorData> = {};
  const nameOf = (leaf: Tensor) => {
    if (!(leaf instanceof Parameter)) return undefined;
    // A name that no input of a model has.
    const name = `parameter ${Object.keys(parameters).length}`;
    parameters[name] = leaf.toData();
    return name;
  };
  const graph = toGraph(Object.fromEntries(tensors.map((t, i) => [`output ${i}`, t])), nameOf);
  const results = evaluateGraph(graph, { ...feeds, ...parameters });
  const list = tensors.map((_, i) => results[`output ${i}`]!);
  return "node" in wanted ? list[0]! : list;
}
