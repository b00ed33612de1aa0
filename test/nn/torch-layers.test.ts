// Layers against PyTorch's: results, gradients by input and parameters, and running statistics, from a file that
// interop/make_layer_fixtures.py made with a real PyTorch.

import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import {
  AvgPool2d,
  BatchNorm,
  Conv1d,
  Conv2d,
  Gru,
  Lstm,
  MaxPool2d,
  type Module,
} from "../../src/nn/index.js";
import {
  constant,
  evaluate,
  evaluateGraph,
  type Feeds,
  grad,
  input,
  mul,
  sum,
  type Tensor,
  type TensorData,
  toGraph,
  withTrace,
} from "../../src/tensor/index.js";
import { errorOf, largestDifference } from "./helpers.js";

interface Case {
  readonly shape: number[];
  readonly result: number[];
  readonly gradients: Record<string, number[]>;
  readonly buffers?: Record<string, number[]>;
  readonly evaluated?: number[];
}

const file = JSON.parse(readFileSync(new URL("../fixtures/layers.json", import.meta.url), "utf8")) as {
  cases: Record<string, Case>;
};

type Layer = Module & { forward(x: Tensor): Tensor };

const layers: readonly (readonly [string, number[], () => Layer])[] = [
  ["conv2d", [2, 4, 5, 4], () => new Conv2d(4, 6, [3, 2], { stride: [2, 1], padding: 1, groups: 2 })],
  ["conv1d", [2, 2, 7], () => new Conv1d(2, 3, 3, { stride: 2, padding: 2, dilation: 2 })],
  ["max_pool", [1, 2, 5, 6], () => new MaxPool2d(3, { stride: 2, padding: 1 })],
  ["avg_pool", [1, 2, 4, 5], () => new AvgPool2d([2, 3], { stride: [1, 2], padding: [1, 0] })],
  ["lstm", [5, 2, 3], () => new Lstm(3, 4)],
  ["lstm_deep", [4, 2, 3], () => new Lstm(3, 2, { layers: 2, bidirectional: true })],
  ["gru", [5, 2, 3], () => new Gru(3, 4)],
  ["gru_deep", [4, 1, 2], () => new Gru(2, 3, { layers: 2, bidirectional: true })],
];

const wave = (shape: readonly number[], step: number, phase: number): TensorData => {
  const size = shape.reduce((product, n) => product * n, 1);
  const data = Float32Array.from({ length: size }, (_, i) => 0.5 * Math.sin(step * i + phase));
  return { dtype: "float32", shape, data };
};

function setWeights(layer: Layer): void {
  for (const [t, parameter] of [...layer.namedParameters().values()].entries())
    parameter.data.set(wave(parameter.shape, 1.3, 0.7 * (t + 1) + 0.1).data);
}

/** The gradient of something linear does not depend on what it is taken at. */
function readsInput(tensor: Tensor): boolean {
  let parameters = 0;
  return toGraph({ tensor }, () => `p${parameters++}`).inputs.some(({ name }) => name === "x");
}

const weighed = (result: Tensor) => sum(mul(result, constant(wave(result.shape, 0.9, 0.2))));

describe.each(layers)("%s", (name, shape, make) => {
  it("gives what PyTorch gives, with its gradients, under its names", () => {
    const expected = file.cases[name]!;
    const layer = make();
    setWeights(layer);
    const x = input("x", shape, "float32");
    const feeds: Feeds = { x: wave(shape, 1.3, 0.1) };
    const result = layer.forward(x);
    expect(result.shape).toEqual(expected.shape);
    expect(largestDifference(evaluate(result, feeds).data, expected.result)).toBeLessThan(2e-6);
    const parameters = layer.namedParameters();
    const names = ["x", ...parameters.keys()];
    expect(names).toEqual(Object.keys(expected.gradients));
    for (const [i, gradient] of grad(weighed(result), [x, ...parameters.values()]).entries())
      expect(
        largestDifference(
          evaluate(gradient, readsInput(gradient) ? feeds : {}).data,
          expected.gradients[names[i]!]!,
        ),
        names[i],
      ).toBeLessThan(1e-5);
  });
});

describe.each<[string, number[], () => BatchNorm]>([
  ["batch_norm", [2, 3, 2, 3], () => new BatchNorm(3)],
  ["batch_norm_cumulative", [5, 3], () => new BatchNorm(3, { momentum: null })],
])("%s", (name, shape, make) => {
  it("normalises by the batch, tracks it, and uses what it tracked, as PyTorch does", () => {
    const expected = file.cases[name]!;
    const layer = make();
    setWeights(layer);
    const buffers = layer.namedBuffers();
    expect([...buffers.keys()]).toEqual(Object.keys(expected.buffers!));
    const names = new Map<object, string>([...buffers].map(([key, buffer]) => [buffer, key]));
    let last: Record<string, TensorData> = {};
    for (let batch = 0; batch < 3; batch++) {
      const updates = new Map<string, Tensor>();
      const graph = withTrace(
        { training: true, live: { nameOf: (owner) => names.get(owner), updates } },
        () => {
          const x = input("x", shape, "float32");
          const result = layer.forward(x);
          const parameters = [...layer.namedParameters()];
          const gradients = grad(weighed(result), [x, ...parameters.map(([, parameter]) => parameter)]);
          const keys = ["x", ...parameters.map(([key]) => key)].map((key) => `grad ${key}`);
          const outputs = { result, ...Object.fromEntries(keys.map((key, i) => [key, gradients[i]!])) };
          const parameterNames = new Map<Tensor, string>(
            parameters.map(([key, parameter]) => [parameter, key]),
          );
          return toGraph({ ...outputs, ...Object.fromEntries(updates) }, (leaf) => parameterNames.get(leaf));
        },
      );
      const feeds = Object.fromEntries([
        ["x", wave(shape, 1.3, 0.1 + batch)] as const,
        ...[...layer.namedParameters()].map(([key, parameter]) => [key, parameter.toData()] as const),
        ...[...buffers].map(([key, { value }]) => [key, value] as const),
      ]);
      const wanted = new Set(graph.inputs.map((one) => one.name));
      last = evaluateGraph(
        graph,
        Object.fromEntries(Object.entries(feeds).filter(([key]) => wanted.has(key))),
      );
      for (const [key, buffer] of buffers) buffer.value.data.set(last[key]!.data);
    }
    expect(largestDifference(last.result!.data, expected.result)).toBeLessThan(1e-5);
    for (const [key, values] of Object.entries(expected.gradients))
      expect(largestDifference(last[`grad ${key}`]!.data, values), key).toBeLessThan(1e-4);
    for (const [key, values] of Object.entries(expected.buffers!))
      expect(largestDifference(buffers.get(key)!.value.data, values), key).toBeLessThan(1e-6);
    const used = evaluate(layer.forward(constant(wave(shape, 1.3, 0.1))));
    expect(largestDifference(used.data, expected.evaluated!)).toBeLessThan(1e-5);
  });
});

describe("refusals", () => {
  it.each<[string, () => unknown, string]>([
    [
      "a batch of one value",
      () => withTrace({ training: true }, () => new BatchNorm(2).forward(constant(wave([1, 2], 1, 0)))),
      "model.batch_norm",
    ],
    ["other channels", () => new BatchNorm(2).forward(constant(wave([2, 3], 1, 0))), "model.batch_norm"],
    ["a momentum of 2", () => new BatchNorm(2, { momentum: 2 }), "model.momentum"],
    ["other inputs", () => new Lstm(3, 2).forward(constant(wave([2, 1, 4], 1, 0))), "model.recurrent"],
    ["a kernel of 0", () => new Conv2d(1, 1, 0), "model.size"],
    ["no layers", () => new Gru(2, 2, { layers: 0 }), "model.size"],
  ])("%s", (_, make, code) => {
    expect(errorOf(make)).toMatchObject({ code });
  });
});
