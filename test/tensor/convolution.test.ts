// Convolution and pooling: against plain loops, and their gradients against central differences in float64; on the
// ONNX backend too.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createOnnxBackend } from "../../src/tensor/backends/onnx/backend.node.js";
import {
  avgPool2d,
  type Backend,
  type ConvolutionOptions,
  constant,
  conv1d,
  conv2d,
  evaluate,
  evaluateGraph,
  grad,
  input,
  maxPool2d,
  mul,
  OperatorError,
  sum,
  type Tensor,
  type TensorData,
  toGraph,
} from "../../src/tensor/index.js";
import { errorOf, largestDifference } from "../nn/helpers.js";

const wave = (
  shape: readonly number[],
  phase: number,
  dtype: "float64" | "float32" = "float64",
): TensorData => {
  const size = shape.reduce((product, n) => product * n, 1);
  const values = Float64Array.from(
    { length: size },
    (_, i) => Math.sin(1.3 * i + phase) + 0.1 * Math.cos(7 * i),
  );
  return dtype === "float64"
    ? { dtype, shape, data: values }
    : { dtype, shape, data: Float32Array.from(values) };
};

const pair = (value: number | readonly [number, number] | undefined, usual: number) =>
  typeof value === "object" ? value : ([value ?? usual, value ?? usual] as const);

/** The definition, in loops. */
function plainConv(
  x: TensorData,
  w: TensorData,
  bias: TensorData | null,
  options: ConvolutionOptions,
): number[] {
  const [N, C, H, W] = x.shape as [number, number, number, number];
  const [O, own, P, Q] = w.shape as [number, number, number, number];
  const [[sh, sw], [ph, pw], [dh, dw]] = [
    pair(options.stride, 1),
    pair(options.padding, 0),
    pair(options.dilation, 1),
  ];
  const groups = options.groups ?? 1;
  const Ho = Math.floor((H + 2 * ph - dh * (P - 1) - 1) / sh) + 1;
  const Wo = Math.floor((W + 2 * pw - dw * (Q - 1) - 1) / sw) + 1;
  const out: number[] = [];
  for (let n = 0; n < N; n++)
    for (let o = 0; o < O; o++)
      for (let i = 0; i < Ho; i++)
        for (let j = 0; j < Wo; j++) {
          let total = bias ? bias.data[o]! : 0;
          const first = Math.floor(o / (O / groups)) * own;
          for (let c = 0; c < own; c++)
            for (let p = 0; p < P; p++)
              for (let q = 0; q < Q; q++) {
                const [row, column] = [i * sh + p * dh - ph, j * sw + q * dw - pw];
                if (row < 0 || row >= H || column < 0 || column >= W) continue;
                total +=
                  x.data[((n * C + first + c) * H + row) * W + column]! *
                  w.data[((o * own + c) * P + p) * Q + q]!;
              }
          out.push(total);
        }
  return out;
}

const cases: readonly (readonly [string, number[], number[], ConvolutionOptions])[] = [
  ["plain", [2, 3, 5, 6], [4, 3, 3, 2], {}],
  ["a kernel of one", [1, 2, 3, 3], [3, 2, 1, 1], {}],
  ["padded and strided", [2, 2, 7, 6], [3, 2, 3, 3], { padding: 1, stride: 2 }],
  ["uneven", [1, 2, 6, 9], [2, 2, 2, 3], { padding: [0, 2], stride: [3, 2], dilation: [2, 1] }],
  ["dilated", [1, 1, 8, 8], [1, 1, 3, 3], { dilation: 3 }],
  ["grouped", [2, 4, 4, 4], [6, 2, 3, 3], { groups: 2, padding: 1 }],
  ["depthwise", [1, 3, 5, 5], [3, 1, 3, 3], { groups: 3, stride: 2 }],
];

describe.each(cases)("conv2d, %s", (_, xShape, wShape, options) => {
  const [x, w, b] = [wave(xShape, 0.1), wave(wShape, 0.7), wave([wShape[0]!], 1.1)];

  it("is what its definition says", () => {
    const found = evaluate(conv2d(constant(x), constant(w), constant(b), options));
    expect(largestDifference(found.data, plainConv(x, w, b, options))).toBeLessThan(1e-12);
  });

  it("has the gradients of central differences", () => {
    checkGradients([x, w, b], ([xs, ws, bs]) => conv2d(xs!, ws!, bs!, options));
  });
});

describe("conv1d", () => {
  it("is a convolution of one row", () => {
    const [x, w] = [wave([2, 2, 9], 0.3), wave([3, 1, 3], 0.9)];
    const options = { stride: 2, padding: 2, dilation: 2, groups: 1 };
    const wide = wave([3, 2, 3], 0.5);
    const found = evaluate(conv1d(constant(x), constant(wide), null, options));
    const flat = (t: TensorData) => ({ ...t, shape: [t.shape[0]!, t.shape[1]!, 1, t.shape[2]!] });
    const expected = plainConv(flat(x), flat(wide), null, {
      stride: [1, 2],
      padding: [0, 2],
      dilation: [1, 2],
    });
    expect(largestDifference(found.data, expected)).toBeLessThan(1e-12);
    expect(found.shape).toEqual([2, 3, 5]);
    checkGradients([x, wide], ([xs, ws]) => conv1d(xs!, ws!, null, options));
    expect(errorOf(() => conv1d(constant(x), constant(w)))).toBeInstanceOf(OperatorError);
  });
});

describe("pooling", () => {
  const x = wave([2, 3, 6, 5], 0.2);
  /** Windows in loops: the values that each one sees, and how many places it has. */
  function plainPool(kernel: [number, number], stride: [number, number], padding: [number, number]) {
    const [N, C, H, W] = x.shape as [number, number, number, number];
    const Ho = Math.floor((H + 2 * padding[0] - kernel[0]) / stride[0]) + 1;
    const Wo = Math.floor((W + 2 * padding[1] - kernel[1]) / stride[1]) + 1;
    const windows: number[][] = [];
    for (let plane = 0; plane < N * C; plane++)
      for (let i = 0; i < Ho; i++)
        for (let j = 0; j < Wo; j++) {
          const seen: number[] = [];
          for (let p = 0; p < kernel[0]; p++)
            for (let q = 0; q < kernel[1]; q++) {
              const [row, column] = [i * stride[0] + p - padding[0], j * stride[1] + q - padding[1]];
              if (row >= 0 && row < H && column >= 0 && column < W)
                seen.push(x.data[(plane * H + row) * W + column]!);
            }
          windows.push(seen);
        }
    return windows;
  }

  it.each([
    [[2, 2], undefined, [0, 0]],
    [
      [3, 2],
      [1, 2],
      [1, 0],
    ],
    [
      [3, 3],
      [2, 2],
      [1, 1],
    ],
  ] as const)("of %j, stride %j, padding %j", (kernel, stride, padding) => {
    const options = { padding, ...(stride && { stride }) };
    const windows = plainPool([...kernel], [...(stride ?? kernel)], [...padding]);
    const area = kernel[0] * kernel[1];
    const max = evaluate(maxPool2d(constant(x), kernel, options));
    expect([...max.data]).toEqual(windows.map((seen) => Math.max(...seen)));
    const mean = evaluate(avgPool2d(constant(x), kernel, options));
    expect(
      largestDifference(
        mean.data,
        windows.map((seen) => seen.reduce((a, b) => a + b, 0) / area),
      ),
    ).toBeLessThan(1e-12);
    checkGradients([x], ([xs]) => maxPool2d(xs!, kernel, options));
    checkGradients([x], ([xs]) => avgPool2d(xs!, kernel, options));
  });
});

describe("what does not fit", () => {
  const x = constant(wave([1, 4, 4, 4], 0));
  const w = (...shape: number[]) => constant(wave(shape, 0));
  it.each<[string, () => Tensor, RegExp]>([
    ["channels", () => conv2d(x, w(2, 3, 3, 3)), /do not make the 4 channels/],
    ["groups", () => conv2d(x, w(3, 2, 3, 3), null, { groups: 2 }), /2 groups/],
    ["a window", () => conv2d(x, w(2, 4, 5, 3)), /a window of 5 does not fit 4 rows/],
    ["a stride", () => conv2d(x, w(2, 4, 3, 3), null, { stride: 0 }), /at least 1/],
    ["padding", () => conv2d(x, w(2, 4, 3, 3), null, { padding: -1 }), /padding must be counts/],
    ["a rank", () => conv2d(w(4, 4), w(2, 4, 3, 3)), /needs x \[N, C, H, W\]/],
    ["a rank of pooling", () => maxPool2d(w(4, 4), 2), /needs \[N, C, H, W\]/],
  ])("%s", (_, make, message) => {
    const error = errorOf(make);
    expect(error).toBeInstanceOf(OperatorError);
    expect((error as Error).message).toMatch(message);
  });
});

describe("on the ONNX backend", () => {
  let backend: Backend;
  beforeAll(async () => {
    backend = await createOnnxBackend({ threads: 1 });
  });
  afterAll(async () => {
    await (backend as { close?(): Promise<void> }).close?.();
  });

  it.each(cases)("%s, with gradients, equals the reference", async (_, xShape, wShape, options) => {
    const operands = [
      wave(xShape, 0.1, "float32"),
      wave(wShape, 0.7, "float32"),
      wave([wShape[0]!], 1.1, "float32"),
    ];
    const tensors = operands.map(({ shape, dtype }, i) => input(`x${i}`, shape, dtype));
    const result = maxPool2d(conv2d(tensors[0]!, tensors[1]!, tensors[2]!, options), 2, {
      stride: 1,
      padding: 1,
    });
    const loss = sum(mul(result, constant(wave(result.shape, 0.4, "float32"))));
    const outputs = { loss, ...Object.fromEntries(grad(loss, tensors).map((g, i) => [`g${i}`, g])) };
    const feeds = Object.fromEntries(operands.map((operand, i) => [`x${i}`, operand]));
    const executable = await backend.compile(toGraph(outputs));
    const found = await executable.run(feeds);
    for (const [name, tensor] of Object.entries(outputs))
      expect(largestDifference(found[name]!.data, evaluate(tensor, feeds).data), name).toBeLessThan(2e-5);
    await executable.close();
  });
});

/** A gradient need not depend on every operand. */
function computed(tensor: Tensor, feeds: Record<string, TensorData>): TensorData {
  const graph = toGraph({ value: tensor });
  const names = graph.inputs.map(({ name }) => name);
  return evaluateGraph(graph, Object.fromEntries(names.map((name) => [name, feeds[name]!]))).value!;
}

/** Compares the gradient of a weighted sum of `of` with central differences at every position. */
function checkGradients(operands: readonly TensorData[], of: (tensors: Tensor[]) => Tensor): void {
  const tensors = operands.map(({ shape, dtype }, i) => input(`x${i}`, shape, dtype));
  const result = of(tensors);
  const loss = sum(mul(result, constant(wave(result.shape, 0.4))));
  const feeds = Object.fromEntries(operands.map((operand, i) => [`x${i}`, operand]));
  const at = (changed: Record<string, TensorData>) => computed(loss, changed).data[0]!;
  for (const [i, gradient] of grad(loss, tensors).entries()) {
    const found = computed(gradient, feeds).data;
    const operand = operands[i]!;
    const stride = Math.max(1, Math.floor(operand.data.length / 24));
    for (let position = 0; position < operand.data.length; position += stride) {
      const moved = (by: number) => {
        const data = Float64Array.from(operand.data);
        data[position]! += by;
        return at({ ...feeds, [`x${i}`]: { ...operand, data } as TensorData });
      };
      expect(found[position]!, `operand ${i}, position ${position}`).toBeCloseTo(
        (moved(1e-5) - moved(-1e-5)) / 2e-5,
        5,
      );
    }
  }
}
