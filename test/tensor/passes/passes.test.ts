// Dead code, constants, common subexpressions and fused products, each on its own.

import { expect, test } from "vitest";
import type { DType } from "../../../src/tensor/dtype.js";
import { add, clamp, exp, full, mul, neg } from "../../../src/tensor/functions/elementwise.js";
import { dropoutMask, swiglu } from "../../../src/tensor/functions/fused.js";
import { matmul, sum } from "../../../src/tensor/functions/linalg.js";
import { iota, pad, split, tril } from "../../../src/tensor/functions/shape.js";
import { apply } from "../../../src/tensor/ops/shape-rules.js";
import { eliminateCommonSubexpressions } from "../../../src/tensor/passes/eliminate-common-subexpressions.js";
import { eliminateDeadCode } from "../../../src/tensor/passes/eliminate-dead-code.js";
import { foldConstants } from "../../../src/tensor/passes/fold-constants.js";
import { fuseMatmulAdd } from "../../../src/tensor/passes/fuse-matmul-add.js";
import { constant } from "../../../src/tensor/tensor.js";
import { type Graph, toGraph } from "../../../src/tensor/trace/graph.js";
import { describeGraph, x32 } from "./graphs.js";

const ops = (graph: Graph) => graph.nodes.map(({ op }) => op);

test("eliminateDeadCode drops nodes and constants, keeps inputs and renumbers", () => {
  const [x, y] = [x32("x", 2), x32("y", 2)];
  const graph = toGraph({ kept: neg(x), dropped: mul(exp(y), 3) });
  const live = eliminateDeadCode({ ...graph, outputs: graph.outputs.slice(0, 1) });
  expect(live).toEqual({
    values: [
      { shape: [2], dtype: "float32" },
      { shape: [2], dtype: "float32" },
      { shape: [2], dtype: "float32" },
    ],
    nodes: [{ op: "neg", params: {}, inputs: [0], outputs: [2] }],
    inputs: [
      { name: "x", value: 0 },
      { name: "y", value: 1 },
    ],
    constants: [],
    outputs: [{ name: "kept", value: 2 }],
  });
});

test("eliminateDeadCode keeps all outputs of a node that is needed for one", () => {
  const graph = eliminateDeadCode(toGraph({ y: swiglu(x32("gate", 2), x32("up", 2)) }));
  expect(graph.nodes[0]!.outputs).toHaveLength(3);
});

test("foldConstants computes in the graph's dtype, through expansions", () => {
  const third = (dtype: DType) => mul(full([2], 1 / 3, dtype), full([2], 1, dtype));
  const graph = foldConstants(toGraph({ a: third("float16"), b: third("float32"), c: third("float64") }));
  const of = (name: string) =>
    graph.constants.find(({ value }) => value === graph.outputs.find((o) => o.name === name)!.value)!.data;
  expect(of("a")).toEqual({
    dtype: "float16",
    shape: [2],
    data: Float32Array.of(0.333251953125, 0.333251953125),
  });
  expect(of("b")).toEqual({ dtype: "float32", shape: [2], data: Float32Array.of(1 / 3, 1 / 3) });
  expect(of("c")).toEqual({ dtype: "float64", shape: [2], data: Float64Array.of(1 / 3, 1 / 3) });
  expect(new Set(ops(graph))).toEqual(new Set(["expand"]));
});

test("foldConstants folds generators, and leaves expansions, large results and random draws", () => {
  const rng = constant({ dtype: "int32", shape: [2], data: Int32Array.of(1, 2) });
  const x = x32("x", 1024, 1025);
  const graph = toGraph({
    small: sum(iota(10, "float32")),
    mask: tril(full([4, 4], 1)),
    large: add(x, mul(tril(full([1024, 1025], 1)), 2)),
    zeros: full([3], 0),
    dropout: dropoutMask(rng, [3], 0.5, 0),
  });
  expect(describeGraph(eliminateDeadCode(foldConstants(graph)))).toEqual([
    "small = 45",
    "mask = constant[4,4]",
    "large = add(x, mul(tril(expand(1)), 2))",
    "zeros = expand(0)",
    "dropout = dropoutMask(constant[2])",
  ]);
});

test("eliminateCommonSubexpressions shares equal nodes and equal small constants", () => {
  const x = x32("x", 4);
  const graph = eliminateCommonSubexpressions(
    toGraph({
      a: add(exp(mul(x, 2)), 1),
      b: add(exp(mul(x, 2)), 1),
      c: split(x, 2, 0)[0]!,
      d: split(x, 2, 0)[1]!,
    }),
  );
  expect(ops(graph)).toEqual(["mul", "exp", "add", "split"]);
  expect(graph.outputs[0]!.value).toBe(graph.outputs[1]!.value);
});

test("eliminateCommonSubexpressions tells parameters, dtypes and signs of zero apart", () => {
  const x = x32("x", 4);
  const kept = (a: ReturnType<typeof mul>, b: ReturnType<typeof mul>) =>
    ops(eliminateCommonSubexpressions(toGraph({ a, b }))).length;
  expect(kept(clamp(x, -Infinity, 0), clamp(x, Number.NEGATIVE_INFINITY, 0))).toBe(1);
  expect(kept(pad(x, [1], [0], -Infinity), pad(x, [1], [0], Infinity))).toBe(2);
  expect(kept(pad(x, [1], [0], Number.NaN), pad(x, [1], [0], Infinity))).toBe(2);
  expect(kept(mul(x, 0), mul(x, -0))).toBe(2);
  expect(kept(mul(x, 1), mul(x, constant({ dtype: "float32", shape: [1], data: Float32Array.of(1) })))).toBe(
    2,
  );
  const marked = { recompute: 1 } as unknown as Record<string, never>;
  expect(kept(exp(x), apply("exp", [x], marked))).toBe(2);
});

test("fuseMatmulAdd makes a sum of products a chain in program order", () => {
  const x = x32("x", 2, 3, 4);
  const [u, v, w] = [x32("u", 4, 5), x32("v", 4, 5), x32("w", 4, 5)];
  const y = add(add(matmul(x, u), matmul(x, v)), matmul(x, w));
  expect(describeGraph(fuseMatmulAdd(toGraph({ y })))).toEqual([
    "y = matmulAdd(x, w, matmulAdd(x, v, matmul(x, u)))",
  ]);
  const exchanged = add(matmul(x, w), add(matmul(x, v), matmul(x, u)));
  expect(describeGraph(fuseMatmulAdd(toGraph({ y: exchanged })))).toEqual([
    "y = matmulAdd(x, w, matmulAdd(x, u, matmul(x, v)))",
  ]);
});

test("fuseMatmulAdd leaves what does not fit", () => {
  const [x, u] = [x32("x", 2, 3, 4), x32("u", 4, 5)];
  const untouched = [
    toGraph({ y: add(matmul(x, u), x32("bias", 5)) }),
    toGraph({ y: add(matmul(x, x32("batched", 2, 4, 5)), x32("c", 2, 3, 5)) }),
    toGraph({ y: add(matmul(x32("t", 2, 4, 3), u, { transA: true }), x32("c", 2, 3, 5)) }),
    toGraph({ y: add(matmul(x32("small", 3, 4), u), x32("c", 2, 3, 5)) }),
    (() => {
      const product = matmul(x, u);
      return toGraph({ y: add(product, product) });
    })(),
    (() => {
      const product = matmul(x, u);
      return toGraph({ y: add(product, x32("c", 2, 3, 5)), product });
    })(),
  ];
  for (const graph of untouched) expect(fuseMatmulAdd(graph)).toBe(graph);
});

test("fuseMatmulAdd keeps the parameters of the product", () => {
  const y = add(x32("c", 3, 5), matmul(x32("x", 4, 3), x32("u", 5, 4), { transA: true, transB: true }));
  const graph = fuseMatmulAdd(toGraph({ y }));
  expect(graph.nodes.map(({ op, params }) => ({ op, params }))).toEqual([
    { op: "matmulAdd", params: { transA: true, transB: true } },
  ]);
});
