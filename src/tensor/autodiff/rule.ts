// What a gradient rule is: from the gradients of a node's outputs to those of its inputs.

import { sum } from "../functions/linalg.js";
import { reshape } from "../functions/shape.js";
import type { OpName, OpParams } from "../ops/params.js";
import { type Shape, sameShape } from "../shape.js";
import type { Tensor } from "../tensor.js";

export interface GradientContext<K extends OpName> {
  readonly params: OpParams[K];
  readonly inputs: readonly Tensor[];
  readonly outputs: readonly Tensor[];
  /** Gradient of the result by each output; undefined where an output does not matter. */
  readonly grads: readonly (Tensor | undefined)[];
  /** Whether the gradient of input i is wanted. */
  readonly needs: readonly boolean[];
}

/** One entry per input; undefined where no gradient flows (integers, masks, constants). */
export type GradientRule<K extends OpName> = (context: GradientContext<K>) => (Tensor | undefined)[];

/** Sums `grad` over the axes along which an operand of `shape` was repeated by broadcasting. */
export function sumTo(grad: Tensor, shape: Shape): Tensor {
  if (sameShape(grad.shape, shape)) return grad;
  const lead = grad.rank - shape.length;
  const axes = grad.shape.flatMap((extent, axis) =>
    axis < lead || (shape[axis - lead] === 1 && extent !== 1) ? [axis] : [],
  );
  return reshape(sum(grad, { axis: axes, keepDims: true }), shape);
}
