// Drops nodes and constants that no output depends on, and renumbers the values that remain. Inputs stay, used
// or not: they are the caller's contract.

import type { Graph, ValueId } from "../trace/graph.js";
import type { Pass } from "./edit.js";

export const eliminateDeadCode: Pass = (graph) => {
  const isLive = new Uint8Array(graph.values.length);
  for (const { value } of graph.outputs) isLive[value] = 1;
  const isNeeded = new Uint8Array(graph.nodes.length);
  for (let i = graph.nodes.length - 1; i >= 0; i--) {
    const node = graph.nodes[i]!;
    if (!node.outputs.some((id) => isLive[id])) continue;
    isNeeded[i] = 1;
    for (const id of node.inputs) isLive[id] = 1;
    // A node's outputs come together, read or not.
    for (const id of node.outputs) isLive[id] = 1;
  }
  for (const { value } of graph.inputs) isLive[value] = 1;
  if (isLive.every((live) => live === 1)) return graph;

  const renumbered = new Int32Array(graph.values.length);
  const values: Graph["values"][number][] = [];
  graph.values.forEach((type, id) => {
    if (isLive[id]) renumbered[id] = values.push(type) - 1;
  });
  const of = (id: ValueId) => renumbered[id]!;
  return {
    values,
    nodes: graph.nodes
      .filter((_, i) => isNeeded[i])
      .map((node) => ({ ...node, inputs: node.inputs.map(of), outputs: node.outputs.map(of) })),
    inputs: graph.inputs.map(({ name, value }) => ({ name, value: of(value) })),
    constants: graph.constants
      .filter(({ value }) => isLive[value])
      .map(({ value, data }) => ({ value: of(value), data })),
    outputs: graph.outputs.map(({ name, value }) => ({ name, value: of(value) })),
  };
};
