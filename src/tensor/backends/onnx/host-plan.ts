// Splits an optimised graph into what ONNX Runtime computes and what the host does around it: dropout masks
// before (ONNX's generators cannot repeat a step after a resume) and scatter-adds into results after
// (embedding gradients: a few hundred microseconds here, several milliseconds and a copy there).

import { ModelError } from "../../../util/errors.js";
import { eliminateDeadCode } from "../../passes/eliminate-dead-code.js";
import type { Graph, GraphNode, ValueId } from "../../trace/graph.js";

export interface MaskPlan {
  /** Name of the graph input that takes the mask. */
  readonly name: string;
  readonly shape: readonly number[];
  readonly rate: number;
  readonly site: number;
  /** Name of the feed with the generator state. */
  readonly rng: string;
}

export interface ScatterPlan {
  /** The result whose rows are added to. */
  readonly output: string;
  readonly shape: readonly number[];
  /** A feed, or an extra result of the ONNX graph. */
  readonly indices: string;
  readonly updates: string;
  readonly rows: number;
}

export interface HostPlan {
  readonly graph: Graph;
  readonly masks: readonly MaskPlan[];
  /** In the order in which they are to be applied. */
  readonly scatters: readonly ScatterPlan[];
  /** Results that start from zeros and are not computed by the ONNX graph at all. */
  readonly zeroed: ReadonlySet<string>;
}

export function planHostWork(graph: Graph): HostPlan {
  const { masks, nodes: withoutMasks, inputs } = takeMasks(graph);
  const peeled = peelScatters({ ...graph, nodes: withoutMasks, inputs });
  // What was peeled off may leave nodes behind that nothing reads any more.
  return { ...peeled, graph: eliminateDeadCode(peeled.graph), masks };
}

function takeMasks(graph: Graph) {
  const masks: MaskPlan[] = [];
  const inputs = [...graph.inputs];
  const nodes = graph.nodes.filter((node) => {
    if (node.op !== "dropoutMask") return true;
    const { shape, rate, site } = (node as GraphNode<"dropoutMask">).params;
    const rng = graph.inputs.find((i) => i.value === node.inputs[0]);
    if (!rng)
      throw new ModelError("dropoutMask needs the generator state as a graph input, not a computed value", {
        code: "onnx.computed_rng",
      });
    const name = `mask.${masks.length}`;
    masks.push({ name, shape, rate, site, rng: rng.name });
    inputs.push({ name, value: node.outputs[0]! });
    return false;
  });
  return { masks, nodes, inputs };
}

function peelScatters(graph: Graph): Omit<HostPlan, "masks"> {
  const producer = new Map<ValueId, GraphNode>();
  const uses = new Map<ValueId, number>();
  const countUse = (value: ValueId) => uses.set(value, (uses.get(value) ?? 0) + 1);
  for (const node of graph.nodes) {
    for (const value of node.outputs) producer.set(value, node);
    for (const value of node.inputs) countUse(value);
  }
  for (const { value } of graph.outputs) countUse(value);

  const feeds = new Map(graph.inputs.map((i) => [i.value, i.name]));
  const fetched = new Map<ValueId, string>();
  /** How the host can get at a value: it is fed anyway, or becomes an extra result. */
  const source = (value: ValueId): string => {
    const feed = feeds.get(value);
    if (feed !== undefined) return feed;
    const name = fetched.get(value) ?? `host.${fetched.size}`;
    fetched.set(value, name);
    return name;
  };

  const scatters: ScatterPlan[] = [];
  const zeroed = new Set<string>();
  const outputs = graph.outputs.map(({ name, value: original }) => {
    let value = original;
    const own: ScatterPlan[] = [];
    for (let node = producer.get(value); node; node = producer.get(value)) {
      const [base, indices, updates] = node.inputs as [ValueId, ValueId, ValueId];
      const isRowScatter = node.op === "scatterAdd" && (node as GraphNode<"scatterAdd">).params.axis === 0;
      if (!isRowScatter || uses.get(value) !== 1) break;
      const type = graph.values[value]!;
      const rows = graph.values[indices]!.shape.reduce((product, n) => product * n, 1);
      own.unshift({
        output: name,
        shape: type.shape,
        indices: source(indices),
        updates: source(updates),
        rows,
      });
      value = base;
    }
    scatters.push(...own);
    if (own.length > 0 && isZero(graph, producer, value)) zeroed.add(name);
    return { name, value };
  });
  const kept = outputs.filter((o) => !zeroed.has(o.name));
  const extra = [...fetched].map(([value, name]) => ({ name, value }));
  return { graph: { ...graph, outputs: [...kept, ...extra] }, scatters, zeroed };
}

/** Whether `value` is a constant zero, possibly repeated. */
function isZero(graph: Graph, producer: ReadonlyMap<ValueId, GraphNode>, value: ValueId): boolean {
  const node = producer.get(value);
  if (node) return node.op === "expand" && isZero(graph, producer, node.inputs[0]!);
  const constant = graph.constants.find((c) => c.value === value);
  return constant?.data.data.every((x) => x === 0) ?? false;
}
