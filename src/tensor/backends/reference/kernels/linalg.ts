// Reference kernels of matrix products, reductions and scans. All sums are accumulated in doubles, in
// row-major order. NaN goes through the softmaxes, logsumexp, max and min. On lines with NaN argmax is undefined
// as an operator: ONNX Runtime finds it or not depending on its place.

import type { TensorData } from "../../../dtype.js";
import type { OpName, OpParams } from "../../../ops/params.js";
import { broadcastStrides, sizeOf } from "../../../shape.js";
import type { ValueType } from "../../../tensor.js";
import type { ReferenceKernel } from "../kernel.js";
import { axisView, forEachLine, stridedOffsets } from "../strided.js";

/** a · b over the last two axes, leading axes broadcast. */
function product(params: OpParams["matmul"], a: TensorData, b: TensorData, type: ValueType): Float64Array {
  const [m, n] = type.shape.slice(-2) as [number, number];
  const k = params.transA ? a.shape.at(-2)! : a.shape.at(-1)!;
  // Strides over (row of the result, summed index) and (summed index, column of the result).
  const [aRow, aSum] = params.transA ? [1, m] : [k, 1];
  const [bSum, bColumn] = params.transB ? [1, k] : [n, 1];
  const batch = type.shape.slice(0, -2);
  const aMatrices = stridedOffsets(batch, broadcastStrides(a.shape.slice(0, -2), batch));
  const bMatrices = stridedOffsets(batch, broadcastStrides(b.shape.slice(0, -2), batch));
  const result = new Float64Array(sizeOf(type.shape));
  let at = 0;
  for (let matrix = 0; matrix < aMatrices.length; matrix++) {
    const aStart = aMatrices[matrix]! * m * k;
    const bStart = bMatrices[matrix]! * k * n;
    for (let row = 0; row < m; row++) {
      for (let column = 0; column < n; column++) {
        let sum = 0;
        for (let i = 0; i < k; i++)
          sum += a.data[aStart + row * aRow + i * aSum]! * b.data[bStart + i * bSum + column * bColumn]!;
        result[at++] = sum;
      }
    }
  }
  return result;
}

/** Combines all elements that fall on the same element of the result, beginning with `start`. */
function reduce(
  x: TensorData,
  axes: readonly number[],
  start: number,
  combine: (a: number, b: number) => number,
): Float64Array {
  const kept = x.shape.map((extent, axis) => (axes.includes(axis) ? 1 : extent));
  const targets = stridedOffsets(x.shape, broadcastStrides(kept, x.shape));
  const result = new Float64Array(sizeOf(kept)).fill(start);
  for (let i = 0; i < targets.length; i++) result[targets[i]!] = combine(result[targets[i]!]!, x.data[i]!);
  return result;
}

const sumOf = (x: TensorData, axes: readonly number[]) => reduce(x, axes, 0, (a, b) => a + b);

/** log Σ exp along each line. Lines of −∞ alone give −∞, lines with +∞ give +∞. */
function logSumExp(x: TensorData, axis: number): Float64Array {
  const peaks = reduce(x, [axis], -Infinity, Math.max);
  const view = axisView(x.shape, axis);
  forEachLine(view, (first, line) => {
    const peak = peaks[line]!;
    if (!Number.isFinite(peak)) return;
    let sum = 0;
    for (let i = 0; i < view.extent; i++) sum += Math.exp(x.data[first + i * view.inner]! - peak);
    peaks[line] = peak + Math.log(sum);
  });
  return peaks;
}

/** Each element under `f`, given the log-sum-exp of its line. */
function relativeToLine(
  x: TensorData,
  axis: number,
  f: (value: number, lse: number) => number,
): Float64Array {
  const sums = logSumExp(x, axis);
  const view = axisView(x.shape, axis);
  const result = new Float64Array(x.data.length);
  forEachLine(view, (first, line) => {
    for (let i = 0; i < view.extent; i++) {
      const at = first + i * view.inner;
      result[at] = f(x.data[at]!, sums[line]!);
    }
  });
  return result;
}

export const linalgKernels = {
  matmul: (params, [a, b], [type]) => [product(params, a!, b!, type!)],
  matmulAdd: (params, [a, b, c], [type]) => [
    product(params, a!, b!, type!).map((value, i) => value + c!.data[i]!),
  ],
  sum: ({ axes }, [x]) => [sumOf(x!, axes)],
  mean: ({ axes }, [x]) => {
    const count = sizeOf(axes.map((axis) => x!.shape[axis]!));
    return [sumOf(x!, axes).map((total) => total / count)];
  },
  max: ({ axes }, [x]) => [reduce(x!, axes, -Infinity, Math.max)],
  min: ({ axes }, [x]) => [reduce(x!, axes, Infinity, Math.min)],
  argmax: ({ axis }, [x], [type]) => {
    const view = axisView(x!.shape, axis);
    const result = new Float64Array(sizeOf(type!.shape));
    forEachLine(view, (first, line) => {
      let best = 0;
      for (let i = 1; i < view.extent; i++)
        if (x!.data[first + i * view.inner]! > x!.data[first + best * view.inner]!) best = i;
      result[line] = best;
    });
    return [result];
  },
  logsumexp: ({ axis }, [x]) => [logSumExp(x!, axis)],
  cumsum: ({ axis, reverse }, [x]) => {
    const view = axisView(x!.shape, axis);
    const result = new Float64Array(x!.data.length);
    forEachLine(view, (first) => {
      let sum = 0;
      for (let step = 0; step < view.extent; step++) {
        const at = first + (reverse ? view.extent - 1 - step : step) * view.inner;
        sum += x!.data[at]!;
        result[at] = sum;
      }
    });
    return [result];
  },
  softmax: ({ axis }, [x]) => [relativeToLine(x!, axis, (value, lse) => Math.exp(value - lse))],
  logSoftmax: ({ axis }, [x]) => [relativeToLine(x!, axis, (value, lse) => value - lse)],
} satisfies Partial<{ [K in OpName]: ReferenceKernel<K> }>;
