// Gradient rules of the operators that move elements, and of indexing.

import { zeros } from "../../functions/elementwise.js";
import { gather, scatterAdd, scatterAddAlong, takeAlong } from "../../functions/indexing.js";
import { concat, pad, reshape, split, transpose, tril, triu } from "../../functions/shape.js";
import type { OpName } from "../../ops/params.js";
import { apply } from "../../ops/shape-rules.js";
import { type GradientRule, sumTo } from "../rule.js";

export const movementGradients = {
  reshape: ({ inputs, grads }) => [reshape(grads[0]!, inputs[0]!.shape)],
  transpose: ({ params, grads }) => [
    transpose(
      grads[0]!,
      params.perm.map((_, axis) => params.perm.indexOf(axis)),
    ),
  ],
  expand: ({ inputs, grads }) => [sumTo(grads[0]!, inputs[0]!.shape)],
  concat: ({ params, inputs, grads }) =>
    split(
      grads[0]!,
      inputs.map((t) => t.shape[params.axis]!),
      params.axis,
    ),
  split: ({ params, outputs, grads }) => [
    concat(
      outputs.map((y, i) => grads[i] ?? zeros(y.shape, y.dtype)),
      params.axis,
    ),
  ],
  slice: ({ params, inputs, grads }) => [
    pad(
      grads[0]!,
      params.starts,
      inputs[0]!.shape.map((n, axis) => n - params.ends[axis]!),
    ),
  ],
  pad: ({ params, inputs, grads }) => [
    apply("slice", [grads[0]!], {
      starts: params.low,
      ends: inputs[0]!.shape.map((n, axis) => params.low[axis]! + n),
    }),
  ],
  tril: ({ params, grads }) => [tril(grads[0]!, params.diagonal)],
  triu: ({ params, grads }) => [triu(grads[0]!, params.diagonal)],
  iota: () => [],
  oneHot: () => [undefined],
  gather: ({ params, inputs, grads }) => [
    scatterAdd(zeros(inputs[0]!.shape, inputs[0]!.dtype), inputs[1]!, grads[0]!, params.axis),
    undefined,
  ],
  takeAlong: ({ params, inputs, grads }) => [
    scatterAddAlong(zeros(inputs[0]!.shape, inputs[0]!.dtype), inputs[1]!, grads[0]!, params.axis),
    undefined,
  ],
  scatterAdd: ({ params, inputs, grads }) => [
    grads[0]!,
    undefined,
    gather(grads[0]!, inputs[1]!, params.axis),
  ],
  scatterAddAlong: ({ params, inputs, grads }) => [
    grads[0]!,
    undefined,
    takeAlong(grads[0]!, inputs[1]!, params.axis),
  ],
} satisfies Partial<{ [K in OpName]: GradientRule<K> }>;
