// A TypeScript function becomes a graph with named inputs and outputs.

import { describe, expect, test } from "vitest";
import {
  add,
  dropoutMask,
  evaluateGraph,
  isTraining,
  matmul,
  mul,
  nextRandomSite,
  OperatorError,
  Parameter,
  sum,
  type Tensor,
  trace,
} from "../../src/tensor/index.js";
import { ModelError } from "../../src/util/errors.js";

const pair = { shape: [2], dtype: "float32" } as const;
const values = (...list: number[]) => ({ ...pair, data: Float32Array.from(list) });

describe("trace", () => {
  test("records of tensors give outputs under their keys", () => {
    const graph = trace(({ x, y }) => ({ total: sum(mul(x, y)), twice: mul(x, 2) }), { x: pair, y: pair });
    expect(graph.inputs.map(({ name }) => name)).toEqual(["x", "y"]);
    expect(evaluateGraph(graph, { x: values(1, 2), y: values(3, 4) })).toEqual({
      total: { dtype: "float32", shape: [], data: Float32Array.of(11) },
      twice: { dtype: "float32", shape: [2], data: Float32Array.of(2, 4) },
    });
  });

  test('a single tensor is the output "output"; inputs it does not need are left out', () => {
    const graph = trace(({ x }) => add(x, 1), { x: pair, unused: pair });
    expect(graph.inputs.map(({ name }) => name)).toEqual(["x"]);
    expect(evaluateGraph(graph, { x: values(1, 2) }).output!.data).toEqual(Float32Array.of(2, 3));
  });

  test("parameters are fed under the given names", () => {
    const weight = new Parameter([2, 1]);
    const fn = ({ x }: { readonly x: Tensor }) => matmul(x, weight);
    const types = { x: { shape: [1, 2], dtype: "float32" } } as const;
    const graph = trace(fn, types, { parameters: new Map([["layer.weight", weight]]) });
    const feeds = {
      x: { dtype: "float32", shape: [1, 2], data: Float32Array.of(1, 2) },
      "layer.weight": { dtype: "float32", shape: [2, 1], data: Float32Array.of(3, 4) },
    } as const;
    expect(evaluateGraph(graph, feeds).output!.data).toEqual(Float32Array.of(11));
    expect(() => trace(fn, types)).toThrow(/a parameter of shape \[2, 1\]/);
  });

  test("training and the generator state are those of the trace", () => {
    const fn = ({ x }: { readonly x: Tensor }) => {
      const { rng, site } = nextRandomSite()!;
      return isTraining() ? mul(x, dropoutMask(rng, [2], 0.5, site)) : x;
    };
    const inputsOf = (training: boolean) =>
      trace(fn, { x: pair }, { training }).inputs.map(({ name }) => name);
    expect([inputsOf(true), inputsOf(false)]).toEqual([["x", "rng"], ["x"]]);
    expect(isTraining()).toBe(false);
  });

  test.each([
    ["nothing", () => undefined, "got none"],
    ["an empty record", () => ({}), "got none"],
    ["a promise", async ({ x }: { x: Tensor }) => x, "got none"],
    ["a number", ({ x }: { x: Tensor }) => ({ y: x, n: 3 }), 'got no tensor for "n"'],
  ])("refuses a function that returns %s", (_, fn, message) => {
    const error = expect.objectContaining({
      code: "trace.result",
      message: expect.stringContaining(message),
    });
    expect(() => trace(fn as never, { x: pair })).toThrow(error);
    expect(() => trace(fn as never, { x: pair })).toThrow(ModelError);
  });

  test("refuses input types that are none", () => {
    expect(() => trace(({ x }) => x, { x: { shape: [-1], dtype: "float32" } })).toThrow(OperatorError);
  });
});
