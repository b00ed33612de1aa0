// Gradient rules of the fused operators, written with the values that their forward pass saved.

import { operatorError } from "../../errors.js";
import { add, cast, maximum, mul, neg, notEqual, sub, zeros } from "../../functions/elementwise.js";
import { rotaryEmbedding } from "../../functions/fused.js";
import { scatterAdd } from "../../functions/indexing.js";
import { matmul, mean, sum } from "../../functions/linalg.js";
import { reshape, slice } from "../../functions/shape.js";
import type { OpName } from "../../ops/params.js";
import { applyAll } from "../../ops/shape-rules.js";
import type { Tensor } from "../../tensor.js";
import type { GradientRule } from "../rule.js";

const leadingAxes = (t: Tensor) => t.shape.slice(0, -1).map((_, axis) => axis);

function refuseSaved(op: string, grads: readonly (Tensor | undefined)[], first: number): void {
  if (grads.slice(first).some((g) => g !== undefined))
    throw operatorError(
      op,
      "its saved outputs cannot be differentiated (no second derivatives through fused operators)",
    );
}

/** Gradients by the tables of cosines and sines, [T, D/2] each: sums over batch and heads. */
function rotaryTableGrads(x: Tensor, g: Tensor): { cos: Tensor; sin: Tensor } {
  const half = x.shape[3]! / 2;
  const [x1, x2] = [slice(x, 3, 0, half), slice(x, 3, half)];
  const [g1, g2] = [slice(g, 3, 0, half), slice(g, 3, half)];
  const total = (t: Tensor) => sum(t, { axis: [1, 2] });
  return { cos: total(add(mul(g1, x1), mul(g2, x2))), sin: total(sub(mul(g2, x1), mul(g1, x2))) };
}

export const fusedGradients = {
  layerNorm: ({ inputs, outputs, grads }) => {
    refuseSaved("layerNorm", grads, 1);
    const [x, weight] = inputs as [Tensor, Tensor];
    const [, average, inverseStd] = outputs as [Tensor, Tensor, Tensor];
    const g = grads[0]!;
    const unit = mul(sub(x, average), inverseStd);
    const scaled = mul(g, weight);
    const centred = sub(scaled, mean(scaled, { axis: -1, keepDims: true }));
    const along = mean(mul(scaled, unit), { axis: -1, keepDims: true });
    return [
      mul(sub(centred, mul(unit, along)), inverseStd),
      sum(mul(g, unit), { axis: leadingAxes(x) }),
      sum(g, { axis: leadingAxes(x) }),
    ];
  },
  rmsNorm: ({ inputs, outputs, grads }) => {
    refuseSaved("rmsNorm", grads, 1);
    const [x, weight] = inputs as [Tensor, Tensor];
    const inverseRms = outputs[1]!;
    const g = grads[0]!;
    const width = x.shape.at(-1)!;
    const unit = mul(x, inverseRms);
    const product = mul(g, unit);
    // Σ over the last axis as a product with a column: much faster than multiply and reduce.
    const column = reshape(mul(weight, 1 / width), [width, 1]);
    const along =
      x.rank === 1 ? reshape(matmul(reshape(product, [1, width]), column), [1]) : matmul(product, column);
    return [mul(sub(mul(g, weight), mul(unit, along)), inverseRms), sum(product, { axis: leadingAxes(x) })];
  },
  dropoutMask: () => [undefined],
  rotaryEmbedding: ({ inputs, grads, needs }) => {
    const [x, cos, sin] = inputs as [Tensor, Tensor, Tensor];
    const g = grads[0]!;
    const tables = needs[1] || needs[2] ? rotaryTableGrads(x, g) : undefined;
    return [rotaryEmbedding(g, cos, neg(sin)), tables?.cos, tables?.sin];
  },
  attention: ({ params, inputs, outputs, grads, needs }) => {
    refuseSaved("attention", grads, 1);
    if (needs.slice(3).some(Boolean))
      throw operatorError(
        "attention",
        "has no gradient by its dropout mask: pass the mask through stopGradient, or compose attention from matmul and softmax",
        inputs,
      );
    const [dq, dk, dv] = applyAll("attentionGrad", [...inputs, grads[0]!, ...outputs], params);
    return [dq, dk, dv, ...inputs.slice(3).map(() => undefined)];
  },
  attentionGrad: () => {
    throw operatorError(
      "attentionGrad",
      "has no derivative: compose attention from matmul and softmax for second derivatives",
    );
  },
  swiglu: ({ inputs, outputs, grads }) => {
    refuseSaved("swiglu", grads, 1);
    const up = inputs[1]!;
    const [, activated, sigma] = outputs as [Tensor, Tensor, Tensor];
    const g = grads[0]!;
    const slope = add(sigma, mul(activated, sub(1, sigma)));
    return [mul(mul(g, up), slope), mul(g, activated)];
  },
  linearCrossEntropy: ({ params, inputs, outputs, grads, needs }) => {
    refuseSaved("linearCrossEntropy", grads, 2);
    const [hidden, weight, labels] = inputs as [Tensor, Tensor, Tensor];
    const [, , hiddenGrad, denseWeightGrad] = outputs as [Tensor, Tensor, Tensor, Tensor];
    const g = grads[0];
    if (!g) return [undefined, undefined, undefined];
    const weightGrad = () => {
      const counted = reshape(cast(notEqual(labels, params.ignoreIndex), hidden.dtype), [
        labels.shape[0]!,
        1,
      ]);
      const rows = scatterAdd(
        zeros(weight.shape, weight.dtype),
        maximum(labels, 0),
        mul(neg(mul(hidden, counted)), g),
      );
      return add(mul(denseWeightGrad, g), rows);
    };
    return [mul(hiddenGrad, g), needs[1] ? weightGrad() : undefined, undefined];
  },
} satisfies Partial<{ [K in OpName]: GradientRule<K> }>;
