// Every operator and every gradient on ONNX Runtime against the reference backend, over the same random samples.

import { afterAll, describe, expect, test } from "vitest";
import { grad } from "../../src/tensor/autodiff/grad.js";
import type { Backend } from "../../src/tensor/backends/backend.js";
import { createOnnxBackend } from "../../src/tensor/backends/onnx/backend.node.js";
import { evaluateGraph } from "../../src/tensor/backends/reference/interpreter.js";
import { isFloating, type TensorData } from "../../src/tensor/dtype.js";
import { mul } from "../../src/tensor/functions/elementwise.js";
import { linearCrossEntropy } from "../../src/tensor/functions/fused.js";
import { max, min, sum } from "../../src/tensor/functions/linalg.js";
import type { OpName } from "../../src/tensor/ops/params.js";
import { applyAll, opNames } from "../../src/tensor/ops/shape-rules.js";
import { constant, input, type Tensor } from "../../src/tensor/tensor.js";
import { type Graph, toGraph } from "../../src/tensor/trace/graph.js";
import { materialize, type OperatorCase, type Sample, samplesOf, uniform } from "./case-generators.js";
import { operatorCases } from "./operator-cases.js";

const runs = 12;
/** float32 on both sides, in another order of additions; relative above 1, absolute below. */
const tolerance = 3e-6;

const backend: Promise<Backend> = createOnnxBackend({ threads: 2 });
const open: (() => Promise<void>)[] = [];
afterAll(async () => {
  for (const close of open) await close();
});

/** Outputs of `graph` on ONNX Runtime. */
async function onnx(graph: Graph, feeds: Record<string, TensorData>): Promise<Record<string, TensorData>> {
  const executable = await (await backend).compile(graph);
  try {
    return await executable.run(feeds);
  } finally {
    await executable.close();
  }
}

function compare(label: string, got: Record<string, TensorData>, want: Record<string, TensorData>): void {
  for (const [name, expected] of Object.entries(want)) {
    const actual = got[name]!;
    expect(actual.shape, `${label} ${name}`).toEqual(expected.shape);
    expected.data.forEach((value, i) => {
      const error = Math.abs(actual.data[i]! - value) / Math.max(1, Math.abs(value));
      if (!(error <= tolerance) && !Object.is(actual.data[i], value))
        expect.fail(`${label} ${name}[${i}]: onnx ${actual.data[i]}, reference ${value}`);
    });
  }
}

function build(op: OpName, sample: Sample) {
  const operands = sample.inputs.map((x) => materialize(x, "float32"));
  const tensors = operands.map((x, i) => input(`x${i}`, x.shape, x.dtype));
  const feeds = Object.fromEntries(operands.map((x, i) => [`x${i}`, x]));
  const outputs = applyAll(op, tensors, sample.params("float32"));
  return { tensors, feeds, outputs };
}

const isForeign = (t: Tensor) => t.dtype === "float64" || t.dtype === "float16";
const named = (prefix: string, tensors: readonly Tensor[]) =>
  Object.fromEntries(tensors.map((t, i) => [`${prefix}${i}`, t]));

describe.each(opNames)("%s", (op) => {
  const operator = operatorCases[op] as unknown as OperatorCase<OpName>;
  const samples = samplesOf(operator, runs);

  test("equals the reference", async () => {
    for (const [i, sample] of samples.entries()) {
      const { feeds, outputs, tensors } = build(op, sample);
      const graph = toGraph(named("y", outputs));
      if ([...outputs, ...tensors].some(isForeign)) {
        await expect(onnx(graph, feeds)).rejects.toThrow(/onnx backend computes in float32/);
        continue;
      }
      compare(`${op} sample ${i}`, await onnx(graph, feeds), evaluateGraph(graph, feeds));
    }
  });

  test.skipIf(operator.refusesGradient)("its gradient equals the reference's", async () => {
    for (const [i, sample] of samples.entries()) {
      const { feeds, outputs, tensors } = build(op, sample);
      const results = outputs
        .slice(0, operator.results ?? outputs.length)
        .filter((t) => t.dtype === "float32");
      const targets = tensors.filter((t, j) => isFloating(t.dtype) && !sample.inputs[j]!.isConstant);
      if (results.length === 0 || targets.length === 0 || [...outputs, ...tensors].some(isForeign)) continue;
      const random = uniform(i + 1);
      const weighted = results.map((t) => {
        const data = Float32Array.from(
          { length: t.shape.reduce((n, extent) => n * extent, 1) },
          () => random() - 0.5,
        );
        return sum(mul(t, constant({ dtype: "float32", shape: t.shape, data })));
      });
      for (const [r, loss] of weighted.entries()) {
        const graph = toGraph(named("g", grad(loss, targets)));
        // Inputs that the gradient does not read need no feed.
        const needed = Object.fromEntries(graph.inputs.map(({ name }) => [name, feeds[name]!]));
        compare(`${op} sample ${i} result ${r}`, await onnx(graph, needed), evaluateGraph(graph, needed));
      }
    }
  });
});

const f32 = (shape: number[], values: number[]): TensorData => ({
  dtype: "float32",
  shape,
  data: Float32Array.from(values),
});

test.each([
  ["max", max],
  ["min", min],
])("%s finds a NaN wherever it stands, and infinities are none", async (_, reduce) => {
  const { NaN: nan, POSITIVE_INFINITY: inf } = Number;
  const rows = [1, 2, 3, nan, 2, 3, 1, nan, 3, 1, 2, nan, -inf, 0, inf];
  const x = input("x", [5, 3], "float32");
  const graph = toGraph({
    lines: reduce(x, { axis: 1 }),
    columns: reduce(x, { axis: 0, keepDims: true }),
    all: reduce(x),
  });
  const feeds = { x: f32([5, 3], rows) };
  expect(await onnx(graph, feeds)).toEqual(evaluateGraph(graph, feeds));
});

describe("a label outside the vocabulary", () => {
  const hidden = input("hidden", [4, 2], "float32");
  const weight = input("weight", [3, 2], "float32");
  const labels = input("labels", [4], "int32");
  const { lossSum, count } = linearCrossEntropy(hidden, weight, labels, { chunks: 2 });
  const feeds = (values: number[]) => ({
    hidden: f32([4, 2], [1, 2, 3, 4, 5, 6, 7, 8]),
    weight: f32([3, 2], [1, -1, 0.5, 2, 0, 1]),
    labels: { dtype: "int32", shape: [4], data: Int32Array.from(values) } as const,
  });
  const [byHidden, byWeight] = grad(lossSum, [hidden, weight]);
  const evaluation = toGraph({ lossSum, count });
  const training = toGraph({ lossSum, count, byHidden: byHidden!, byWeight: byWeight! });

  test.each([[-1], [3], [-101], [2 ** 31 - 1]])("%d makes the loss NaN on onnx", async (label) => {
    const { lossSum: loss, count: counted } = await onnx(evaluation, feeds([0, -100, label, 2]));
    expect([loss!.data[0], counted!.data[0]]).toEqual([Number.NaN, 3]);
    expect(() => evaluateGraph(evaluation, feeds([0, -100, label, 2]))).toThrow(
      `linearCrossEntropy: index ${label} at position 2 is out of range`,
    );
  });

  test("in training: NaN below 0, an error from the weight's gradient above", async () => {
    expect((await onnx(training, feeds([0, -100, -1, 2]))).lossSum!.data[0]).toBeNaN();
    await expect(onnx(training, feeds([0, -100, 3, 2]))).rejects.toThrow("index 3 at position 2 is outside");
  });

  test("is fine when it is the ignored one", async () => {
    const given = feeds([0, -100, 1, 2]);
    compare("training", await onnx(training, given), evaluateGraph(training, given));
  });

  test("and an ignored one may lie inside", async () => {
    const loss = linearCrossEntropy(hidden, weight, labels, { ignoreIndex: 1 }).lossSum;
    const [h, w] = grad(loss, [hidden, weight]);
    const [graph, given] = [toGraph({ loss, h: h!, w: w! }), feeds([0, 1, 1, 2])];
    compare("ignored 1", await onnx(graph, given), evaluateGraph(graph, given));
  });
});
