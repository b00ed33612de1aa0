// The passes together: results never change, and what a training step needs is found.

import { describe, expect, test } from "vitest";
import { grad } from "../../../src/tensor/autodiff/grad.js";
import { evaluateGraph } from "../../../src/tensor/backends/reference/interpreter.js";
import { add, mul, tanh } from "../../../src/tensor/functions/elementwise.js";
import { linearCrossEntropy, rmsNorm } from "../../../src/tensor/functions/fused.js";
import { embedding } from "../../../src/tensor/functions/indexing.js";
import { matmul } from "../../../src/tensor/functions/linalg.js";
import { eliminateCommonSubexpressions } from "../../../src/tensor/passes/eliminate-common-subexpressions.js";
import { eliminateDeadCode } from "../../../src/tensor/passes/eliminate-dead-code.js";
import { foldConstants } from "../../../src/tensor/passes/fold-constants.js";
import { fuseMatmulAdd } from "../../../src/tensor/passes/fuse-matmul-add.js";
import { optimize } from "../../../src/tensor/passes/optimize.js";
import { simplify } from "../../../src/tensor/passes/simplify.js";
import { input } from "../../../src/tensor/tensor.js";
import { type Graph, toGraph } from "../../../src/tensor/trace/graph.js";
import { describeGraph, randomGraph, x32 } from "./graphs.js";

const passes = {
  eliminateDeadCode,
  foldConstants,
  eliminateCommonSubexpressions,
  simplify,
  fuseMatmulAdd,
  optimize,
};

describe.each(Object.entries(passes))("%s", (_, pass) => {
  test("keeps every result, input and output of random graphs", () => {
    for (let seed = 1; seed <= 40; seed++) {
      const { graph, feeds } = randomGraph(seed, 5 + (seed % 40));
      const changed = pass(graph);
      expectWellFormed(changed);
      expect(changed.inputs.map(({ name }) => name)).toEqual(graph.inputs.map(({ name }) => name));
      const before = evaluateGraph(graph, feeds);
      const after = evaluateGraph(changed, feeds);
      expect(Object.keys(after)).toEqual(Object.keys(before));
      for (const [name, { dtype, shape, data }] of Object.entries(before)) {
        expect([after[name]!.dtype, after[name]!.shape]).toEqual([dtype, shape]);
        data.forEach((value, i) => {
          expect(after[name]!.data[i], `seed ${seed}, ${name}[${i}]`).toBeCloseTo(value, 10);
        });
      }
    }
  });

  test("does not touch its argument, and gives the same object when there is nothing to do", () => {
    const { graph } = randomGraph(7, 30);
    const copy = structuredClone(graph);
    const once = pass(graph);
    expect(graph).toEqual(copy);
    const settled = optimize(graph);
    expect(pass(settled)).toBe(settled);
    expect(pass(structuredClone(graph))).toEqual(once);
  });
});

test("optimize shrinks random graphs", () => {
  for (let seed = 1; seed <= 20; seed++) {
    const { graph } = randomGraph(seed, 40);
    expect(optimize(graph).nodes.length).toBeLessThan(0.9 * graph.nodes.length);
  }
});

test("a training step: tied weights are scattered into, gradients of the stream are fused", () => {
  const E = x32("E", 7, 4);
  const w = x32("w", 4, 4);
  const scale = x32("scale", 4);
  const ids = input("ids", [6], "int32");
  const x = embedding(E, ids);
  const h = add(x, matmul(tanh(matmul(rmsNorm(x, scale), w)), w));
  const { lossSum } = linearCrossEntropy(h, E, ids);
  const [gE, gw] = grad(mul(lossSum, 0.5), [E, w]);
  const [lossText, gradText] = describeGraph(optimize(toGraph({ lossSum, gE: gE! })));
  expect(lossText).toContain("matmulAdd(");
  // Two scatters into the dense part; nothing of zeros is left.
  expect(gradText).toMatch(/^gE = scatterAdd\(scatterAdd\(mul\(linearCrossEntropy/);
  expect(gradText).not.toContain("expand(0)");
  expect(describeGraph(optimize(toGraph({ gw: gw! })))[0]).toMatch(/^gw = matmulAdd\(/);
});

/** Nodes follow their inputs, each value has one origin, ids are in range. */
function expectWellFormed(graph: Graph): void {
  const known = new Set([...graph.inputs, ...graph.constants].map(({ value }) => value));
  expect(known.size).toBe(graph.inputs.length + graph.constants.length);
  for (const { inputs, outputs } of graph.nodes) {
    expect(inputs.every((id) => known.has(id))).toBe(true);
    for (const id of outputs) {
      expect(known.has(id) || graph.values[id] === undefined).toBe(false);
      known.add(id);
    }
  }
  expect(graph.outputs.every(({ value }) => known.has(value))).toBe(true);
}
