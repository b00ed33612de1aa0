// Gradient rules of matrix products, reductions and scans.

import { cast, div, equal, exp, mul, sub } from "../../functions/elementwise.js";
import { cumsum, matmul, sum } from "../../functions/linalg.js";
import { expand, reshape } from "../../functions/shape.js";
import type { OpName, OpParams } from "../../ops/params.js";
import { type Shape, sizeOf } from "../../shape.js";
import type { Tensor } from "../../tensor.js";
import { type GradientContext, type GradientRule, sumTo } from "../rule.js";

/** A reduction's result or gradient, with its reduced axes back as extents of 1 and repeated to `shape`. */
function unreduce(t: Tensor, shape: Shape, axes: readonly number[]): Tensor {
  return expand(
    reshape(
      t,
      shape.map((n, axis) => (axes.includes(axis) ? 1 : n)),
    ),
    shape,
  );
}

function withLastAxes(t: Tensor): Tensor {
  return reshape(t, [sizeOf(t.shape.slice(0, -1)), t.shape.at(-1)!]);
}

/** Gradients of `a · b` (either possibly transposed) by a and b. */
function productGradients(
  params: OpParams["matmul"],
  a: Tensor,
  b: Tensor,
  g: Tensor,
  needs: readonly boolean[],
) {
  const { transA, transB } = params;
  const da = () =>
    transA ? matmul(b, g, { transA: transB, transB: true }) : matmul(g, b, { transB: !transB });
  const db = () => {
    // A matrix shared by a batch of rows: one product over all rows instead of a batch of products to sum up.
    const flat = b.rank === 2 && a.rank > 2 && !transA;
    const [x, dy] = flat ? [withLastAxes(a), withLastAxes(g)] : [a, g];
    return transB ? matmul(dy, x, { transA: true, transB: transA }) : matmul(x, dy, { transA: !transA });
  };
  return [needs[0] ? sumTo(da(), a.shape) : undefined, needs[1] ? sumTo(db(), b.shape) : undefined];
}

/** Gradient of max/min: shared equally among all positions that reach the extreme. */
const extreme = <K extends "max" | "min">({ params, inputs, outputs, grads }: GradientContext<K>) => {
  const x = inputs[0]!;
  const { axes } = params as OpParams["max"];
  const hits = cast(equal(x, unreduce(outputs[0]!, x.shape, axes)), x.dtype);
  const share = div(hits, sum(hits, { axis: axes, keepDims: true }));
  return [mul(share, unreduce(grads[0]!, x.shape, axes))];
};

export const linalgGradients = {
  matmul: ({ params, inputs, grads, needs }) =>
    productGradients(params, inputs[0]!, inputs[1]!, grads[0]!, needs),
  matmulAdd: ({ params, inputs, grads, needs }) => [
    ...productGradients(params, inputs[0]!, inputs[1]!, grads[0]!, needs),
    grads[0]!,
  ],
  sum: ({ params, inputs, grads }) => [unreduce(grads[0]!, inputs[0]!.shape, params.axes)],
  mean: ({ params, inputs, outputs, grads }) => {
    const count = sizeOf(inputs[0]!.shape) / Math.max(1, sizeOf(outputs[0]!.shape));
    return [unreduce(mul(grads[0]!, 1 / count), inputs[0]!.shape, params.axes)];
  },
  max: extreme,
  min: extreme,
  argmax: () => [undefined],
  logsumexp: ({ params, inputs, outputs, grads }) => {
    const x = inputs[0]!;
    const axes = [params.axis];
    return [mul(unreduce(grads[0]!, x.shape, axes), exp(sub(x, unreduce(outputs[0]!, x.shape, axes))))];
  },
  cumsum: ({ params, grads }) => [cumsum(grads[0]!, params.axis, !params.reverse)],
  softmax: ({ params, outputs, grads }) => {
    const y = outputs[0]!;
    const inner = sum(mul(grads[0]!, y), { axis: params.axis, keepDims: true });
    return [mul(y, sub(grads[0]!, inner))];
  },
  logSoftmax: ({ params, outputs, grads }) => [
    sub(grads[0]!, mul(exp(outputs[0]!), sum(grads[0]!, { axis: params.axis, keepDims: true }))),
  ],
} satisfies Partial<{ [K in OpName]: GradientRule<K> }>;
