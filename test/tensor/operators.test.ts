// Walks the operator table: every primitive has a shape rule, a reference kernel, a gradient rule and a
// lowering; every gradient equals central differences in float64; every narrower dtype is the float64 result
// rounded once.

import { describe, expect, test } from "vitest";
import { grad } from "../../src/tensor/autodiff/grad.js";
import { gradientRules } from "../../src/tensor/autodiff/gradient-rules.js";
import { lowerings } from "../../src/tensor/backends/onnx/lowering-table.js";
import { evaluateGraph } from "../../src/tensor/backends/reference/interpreter.js";
import { toStorage } from "../../src/tensor/backends/reference/kernel.js";
import { kernels } from "../../src/tensor/backends/reference/kernels.js";
import { isFloating, type TensorData } from "../../src/tensor/dtype.js";
import { add, cast, mul } from "../../src/tensor/functions/elementwise.js";
import { sum } from "../../src/tensor/functions/linalg.js";
import type { OpName } from "../../src/tensor/ops/params.js";
import { applyAll, opNames } from "../../src/tensor/ops/shape-rules.js";
import { constant, input, type Tensor } from "../../src/tensor/tensor.js";
import { toGraph } from "../../src/tensor/trace/graph.js";
import {
  type FloatDType,
  materialize,
  type OperatorCase,
  type Sample,
  samplesOf,
  uniform,
} from "./case-generators.js";
import { operatorCases } from "./operator-cases.js";

const runs = 30;
const step = 1e-5;
const tolerance = 1e-6;
/** Large operands are checked at this many positions. */
const maxPositions = 12;

test.each([
  ["operator-cases", operatorCases],
  ["reference kernels", kernels],
  ["gradient rules", gradientRules],
  ["ONNX lowerings", lowerings],
])("%s: one row per operator", (_, table) => {
  expect(Object.keys(table).sort()).toEqual([...opNames].sort());
});

describe.each(opNames)("%s", (op) => {
  const operator = operatorCases[op] as unknown as OperatorCase<OpName>;
  const samples = samplesOf(operator, runs);

  test("gradient equals central differences", () => {
    for (const sample of samples) checkGradient(op, operator, sample);
  });

  test("float32 and float16 are the float64 result rounded once", () => {
    for (const float of ["float32", "float16"] as const) {
      for (const sample of samples) {
        const operands = sample.inputs.map((x) => materialize(x, float));
        const narrow = run(op, sample, float, operands);
        const wide = run(op, sample, "float64", operands.map(widen));
        expect(narrow.map(({ data }) => data)).toEqual(
          wide.map(({ data }, i) => toStorage(narrow[i]!.dtype, Float64Array.from(data))),
        );
      }
    }
  });
});

function widen(t: TensorData): TensorData {
  return isFloating(t.dtype) ? { ...t, dtype: "float64", data: Float64Array.from(t.data) } : t;
}

function inputsFor(operands: readonly TensorData[]): {
  tensors: Tensor[];
  feeds: Record<string, TensorData>;
} {
  return {
    tensors: operands.map((x, i) => input(`x${i}`, x.shape, x.dtype)),
    feeds: Object.fromEntries(operands.map((x, i) => [`x${i}`, x])),
  };
}

function run(op: OpName, sample: Sample, float: FloatDType, operands: readonly TensorData[]): TensorData[] {
  const { tensors, feeds } = inputsFor(operands);
  const outputs = applyAll(op, tensors, sample.params(float));
  const graph = toGraph(Object.fromEntries(outputs.map((y, i) => [`y${i}`, y])));
  // An output's graph input may be absent (iota reads none).
  const results = evaluateGraph(graph, feeds);
  return outputs.map((_, i) => results[`y${i}`]!);
}

/** A scalar that depends on every result with random weights. */
function weigh(results: readonly Tensor[]): Tensor {
  const draw = uniform(11);
  return results.reduce<Tensor>(
    (total, y) => {
      const size = y.shape.reduce((product, n) => product * n, 1);
      const weights = constant({
        dtype: "float64",
        shape: y.shape,
        data: Float64Array.from({ length: size }, () => 2 * draw() - 1),
      });
      return add(total, sum(mul(cast(y, "float64"), weights)));
    },
    constant({ dtype: "float64", shape: [], data: new Float64Array(1) }),
  );
}

function checkGradient(op: OpName, operator: OperatorCase<OpName>, sample: Sample): void {
  const operands = sample.inputs.map((x) => materialize(x, "float64"));
  const { tensors, feeds } = inputsFor(operands);
  const outputs = applyAll(op, tensors, sample.params("float64"));
  const loss = weigh(outputs.slice(0, operator.results ?? outputs.length));
  const moved = tensors.flatMap((t, i) => (isFloating(t.dtype) && !sample.inputs[i]!.isConstant ? [i] : []));
  if (operator.refusesGradient) {
    expect(() =>
      grad(
        loss,
        moved.map((i) => tensors[i]!),
      ),
    ).toThrow(op);
    return;
  }
  const grads = grad(
    loss,
    moved.map((i) => tensors[i]!),
  );
  grads.forEach((g, i) => {
    expect([g.dtype, g.shape]).toEqual(["float64", tensors[moved[i]!]!.shape]);
  });
  const lossGraph = toGraph({ loss });
  const lossWith = (changed: Record<string, TensorData>) =>
    evaluateGraph(lossGraph, { ...feeds, ...changed }).loss!.data[0]!;
  const gradGraph = toGraph(
    Object.fromEntries([["loss", loss] as const, ...grads.map((g, i) => [`g${moved[i]}`, g] as const)]),
  );
  const analytic = evaluateGraph(gradGraph, feeds);

  for (const i of moved) {
    const { data, shape, dtype } = operands[i]!;
    const stride = Math.max(1, Math.ceil(data.length / maxPositions));
    for (let position = 0; position < data.length; position += stride) {
      const at = (delta: number) => {
        const shifted = Float64Array.from(data);
        shifted[position]! += delta;
        return lossWith({ [`x${i}`]: { shape, dtype, data: shifted } });
      };
      const slope = operator.stopsGradient ? 0 : (at(step) - at(-step)) / (2 * step);
      const error = Math.abs(analytic[`g${i}`]!.data[position]! - slope) / Math.max(1, Math.abs(slope));
      expect(
        error,
        `${op} ${JSON.stringify(sample.params("float64"))}: gradient by input ${i} at ${position} is ${analytic[`g${i}`]!.data[position]}, differences give ${slope}`,
      ).toBeLessThan(tolerance);
    }
  }
}
