// Lets equal computations share one node: same operator, same parameters, same inputs. Small equal constants
// are shared first. A node that must be computed again (gradient checkpointing) needs only a parameter that
// tells it apart: nodes with different parameters are never merged.

import type { TensorData } from "../dtype.js";
import type { GraphNode, ValueId } from "../trace/graph.js";
import { type Pass, Substitution } from "./edit.js";

/** Larger constants are compared by identity only. */
const maxComparedElements = 16;

export const eliminateCommonSubexpressions: Pass = (graph) => {
  const substitution = new Substitution();
  const seenConstants = new Map<string | TensorData["data"], ValueId>();
  for (const { value, data } of graph.constants) {
    const key = constantKey(data);
    const first = seenConstants.get(key);
    if (first === undefined) seenConstants.set(key, value);
    else if (sameType(graph.values[first]!, graph.values[value]!)) substitution.set(value, first);
  }

  const seenNodes = new Map<string, GraphNode>();
  const nodes: GraphNode[] = [];
  for (const original of graph.nodes) {
    const node = substitution.in(original);
    const key = `${node.op} ${node.inputs.join(" ")} ${paramsKey(node.params)}`;
    const first = seenNodes.get(key);
    if (first) {
      node.outputs.forEach((id, index) => {
        substitution.set(id, first.outputs[index]!);
      });
    } else {
      seenNodes.set(key, node);
      nodes.push(node);
    }
  }
  return substitution.isEmpty ? graph : { ...graph, nodes, outputs: substitution.inOutputs(graph.outputs) };
};

function constantKey({ dtype, shape, data }: TensorData): string | TensorData["data"] {
  if (data.length > maxComparedElements) return data;
  return `${dtype} ${shape.join(" ")} = ${Array.from(data, numberKey).join(" ")}`;
}

function sameType(
  a: { dtype: string; shape: readonly number[] },
  b: { dtype: string; shape: readonly number[] },
): boolean {
  return a.dtype === b.dtype && a.shape.join() === b.shape.join();
}

/** A text that is equal exactly for equal parameters. JSON would write ±Infinity, NaN and null alike. */
function paramsKey(value: unknown): string {
  if (typeof value === "number") return numberKey(value);
  if (Array.isArray(value)) return `[${value.map(paramsKey).join()}]`;
  if (typeof value !== "object" || value === null) return String(value);
  let key = "";
  for (const [name, field] of Object.entries(value).sort(byName)) key += `${name}:${paramsKey(field)};`;
  return key;
}

function byName([a]: [string, unknown], [b]: [string, unknown]): number {
  return a < b ? -1 : 1;
}

function numberKey(value: number): string {
  return Object.is(value, -0) ? "-0" : String(value);
}
