// Helpers for the tests of the passes: a short text for a graph, and random graphs to compare before and after.

import { grad } from "../../../src/tensor/autodiff/grad.js";
import type { TensorData } from "../../../src/tensor/dtype.js";
import {
  add,
  cast,
  div,
  full,
  less,
  logicalNot,
  mul,
  neg,
  stopGradient,
  sub,
  tanh,
  where,
  zeros,
} from "../../../src/tensor/functions/elementwise.js";
import { scatterAdd } from "../../../src/tensor/functions/indexing.js";
import { matmul, mean, softmax, sum } from "../../../src/tensor/functions/linalg.js";
import { concat, reshape, split, transpose } from "../../../src/tensor/functions/shape.js";
import { apply } from "../../../src/tensor/ops/shape-rules.js";
import { constant, input, type Tensor } from "../../../src/tensor/tensor.js";
import { type Graph, toGraph } from "../../../src/tensor/trace/graph.js";
import { uniform } from "../case-generators.js";

/** `matmulAdd(x, w, mul(x, 2)) -> y`: each output as an expression; inputs by name, constants by value or shape. */
export function describeGraph(graph: Graph): string[] {
  const text = new Map<number, string>();
  for (const { name, value } of graph.inputs) text.set(value, name);
  for (const { value, data } of graph.constants)
    text.set(value, data.data.length === 1 ? `${data.data[0]}` : `constant[${data.shape.join(",")}]`);
  for (const { op, inputs, outputs } of graph.nodes) {
    const call = `${op}(${inputs.map((id) => text.get(id)).join(", ")})`;
    outputs.forEach((id, i) => {
      text.set(id, outputs.length > 1 ? `${call}.${i}` : call);
    });
  }
  return graph.outputs.map(({ name, value }) => `${name} = ${text.get(value)}`);
}

export const x32 = (name: string, ...shape: number[]): Tensor => input(name, shape, "float32");

/** A graph of `size` random operators over [3, 3] matrices with the gradients of its result, and its feeds. */
export function randomGraph(seed: number, size: number): { graph: Graph; feeds: Record<string, TensorData> } {
  const draw = uniform(seed);
  const dtype = "float64";
  const shape = [3, 3];
  const values = () => Float64Array.from({ length: 9 }, () => 2 * draw() - 1);
  const leaves = ["a", "b", "c"].map((name) => input(name, shape, dtype));
  const ids = constant({ dtype: "int32", shape: [4], data: Int32Array.of(0, 2, 2, 1) });
  const pool: Tensor[] = [
    ...leaves,
    full(shape, 1, dtype),
    zeros(shape, dtype),
    constant({ dtype, shape, data: values() }),
  ];
  const pick = () => pool[Math.floor(draw() * pool.length)]!;
  const steps: (() => Tensor)[] = [
    () => add(pick(), pick()),
    () => sub(pick(), pick()),
    () => mul(pick(), pick()),
    () => add(pick(), mul(pick(), 1)),
    () => mul(1, add(0, pick())),
    () => div(sub(pick(), 0), 1),
    () => neg(pick()),
    () => neg(neg(pick())),
    () => transpose(pick()),
    () => transpose(transpose(pick())),
    () => reshape(reshape(pick(), [9]), shape),
    () => apply("reshape", [pick()], { shape }),
    () => apply("expand", [pick()], { shape }),
    () => apply("cast", [pick()], { dtype }),
    () => cast(cast(less(pick(), pick()), "int32"), dtype),
    () => where(logicalNot(less(pick(), 0)), pick(), full(shape, 0, dtype)),
    () => stopGradient(pick()),
    () => matmul(pick(), pick(), { transA: draw() < 0.5, transB: draw() < 0.5 }),
    () => add(matmul(pick(), pick()), pick()),
    () => add(matmul(pick(), pick()), matmul(pick(), pick())),
    () => add(pick(), scatterAdd(zeros(shape, dtype), ids, matmul(full([4, 3], 0.5, dtype), pick()))),
    () => add(scatterAdd(zeros(shape, dtype), ids, full([4, 3], 2, dtype)), pick()),
    () => mul(pick(), sum(pick(), { axis: 0, keepDims: true })),
    () => softmax(pick()),
    () => concat(split(pick(), [1, 2], 0).reverse(), 0),
  ];
  for (let i = 0; i < size; i++) {
    const next = steps[Math.floor(draw() * steps.length)]!();
    // Keeps values, and so rounding differences, of the order of one.
    pool.push(draw() < 0.5 ? tanh(next) : mul(next, 0.3));
  }
  const loss = mean(tanh(pool.slice(-4).reduce(add)));
  const outputs = { loss, ...Object.fromEntries(grad(loss, leaves).map((g, i) => [`g${i}`, g])) };
  const graph = toGraph(outputs);
  const feeds = Object.fromEntries(
    graph.inputs.map(({ name }) => [name, { dtype, shape, data: values() } as const]),
  );
  return { graph, feeds };
}
