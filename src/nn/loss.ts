// Loss functions over logits, and the mean that all models share. For a large vocabulary without head bias,
// linearCrossEntropy of the tensor engine never holds the logits and is the better choice.

import {
  cast,
  div,
  greaterEqual,
  less,
  logicalAnd,
  logicalNot,
  logSoftmax,
  maximum,
  mul,
  neg,
  notEqual,
  reshape,
  sum,
  type Tensor,
  takeAlong,
  where,
} from "../tensor/index.js";
import { ModelError } from "../util/errors.js";

/** A loss as the trainer weighs it: the sum over the counted targets, and their number. Both scalars. */
export interface SummedLoss {
  readonly lossSum: Tensor;
  readonly count: Tensor;
}

/**
 * Cross-entropy in nats of `logits` [N, C] against int32 `labels` [N]; labels equal to `ignoreIndex` count
 * for nothing. Every other label must lie in 0 … C−1: the reference backend throws ModelError for one that does
 * not; the onnx backend gives NaN as the loss for −C … −1, and fails for the others.
 */
export function crossEntropy(logits: Tensor, labels: Tensor, { ignoreIndex = -100 } = {}): SummedLoss {
  const N = logits.shape[0];
  if (logits.rank !== 2 || labels.rank !== 1 || labels.shape[0] !== N)
    throw new ModelError(
      `crossEntropy needs logits [N, C] and labels [N], got [${logits.shape.join(", ")}] and [${labels.shape.join(", ")}]`,
      { code: "model.loss_shape", details: { logits: logits.shape, labels: labels.shape } },
    );
  const isCounted = notEqual(labels, ignoreIndex);
  const isClass = logicalAnd(greaterEqual(labels, 0), less(labels, logits.shape[1]!));
  const counted = cast(isCounted, logits.dtype);
  // An ignored label may be negative; it is read at class 0 and then weighed with 0.
  const index = reshape(where(isCounted, labels, 0), [labels.shape[0]!, 1]);
  const logProbability = reshape(takeAlong(logSoftmax(logits), index, 1), labels.shape);
  const weight = where(logicalAnd(isCounted, logicalNot(isClass)), Number.NaN, counted);
  return { lossSum: neg(sum(mul(logProbability, weight))), count: sum(counted) };
}

/** Mean over the counted targets; 0 when none counts. */
export function meanLoss({ lossSum, count }: SummedLoss): Tensor {
  return div(lossSum, maximum(count, 1));
}
