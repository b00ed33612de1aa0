// Turns a graph into the bytes of one static-shape ONNX model.

import { invariant } from "../../../util/errors.js";
import type { OpName } from "../../ops/params.js";
import type { Graph, ValueId } from "../../trace/graph.js";
import { OnnxBuilder, type OnnxName } from "./builder.js";
import type { Lowering, LoweringContext } from "./lowering.js";
import { lowerings } from "./lowering-table.js";

/** Feeds and results appear under these prefixes: ONNX has one namespace for all values. */
export const feedName = (name: string): OnnxName => `in:${name}`;
export const resultName = (name: string): OnnxName => `out:${name}`;

/** Inputs that nothing uses are left out; `fed` says which remain. */
export function lowerGraph(graph: Graph): { model: Uint8Array; fed: string[] } {
  const b = new OnnxBuilder();
  const used = usedValues(graph);
  const names = new Map<ValueId, OnnxName>();
  const fed: string[] = [];
  for (const { name, value } of graph.inputs) {
    if (!used.has(value)) continue;
    const { dtype, shape } = graph.values[value]!;
    b.input(feedName(name), dtype, shape);
    names.set(value, feedName(name));
    fed.push(name);
  }
  for (const { value, data } of graph.constants) if (used.has(value)) names.set(value, b.constant(data));

  for (const node of graph.nodes) {
    const context: LoweringContext<OpName> = {
      b,
      params: node.params,
      inputs: node.inputs.map((value) => {
        const name = names.get(value);
        invariant(name !== undefined, `${node.op} reads a value that was not lowered`);
        return { name, ...graph.values[value]! };
      }),
      outputs: node.outputs.map((value) => ({ ...graph.values[value]!, used: used.has(value) })),
    };
    const results = (lowerings[node.op] as unknown as Lowering<OpName>)(context);
    node.outputs.forEach((value, i) => {
      const name = results[i];
      if (name !== undefined) names.set(value, name);
    });
  }
  for (const { name, value } of graph.outputs) {
    const { dtype, shape } = graph.values[value]!;
    const source = names.get(value);
    invariant(source !== undefined, `result ${name} was not lowered`);
    b.output(resultName(name), source, dtype, shape);
  }
  return { model: b.build(), fed };
}

function usedValues(graph: Graph): Set<ValueId> {
  const used = new Set<ValueId>(graph.outputs.map((o) => o.value));
  for (const node of graph.nodes) for (const value of node.inputs) used.add(value);
  return used;
}
