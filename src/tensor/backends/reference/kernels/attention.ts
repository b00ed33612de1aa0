// Reference kernels of attention and its gradient, one query at a time. `blocks` changes only how the saved
// probabilities are laid out. Dimension names as in functions/fused.ts.

import type { TensorData } from "../../../dtype.js";
import type { AttentionParams, OpName } from "../../../ops/params.js";
import { sizeOf } from "../../../shape.js";
import type { ReferenceKernel } from "../kernel.js";

/** The operands by name, and where their elements are. */
function layout(params: AttentionParams, inputs: readonly TensorData[]) {
  const [q, k, v, ...rest] = inputs as [TensorData, TensorData, TensorData, ...TensorData[]];
  const keyMask = params.hasKeyMask ? rest.shift() : undefined;
  const dropout = params.hasDropout ? rest.shift() : undefined;
  const [T, B, H, D] = q.shape as [number, number, number, number];
  const [S, , K] = k.shape as [number, number, number];
  const rows = T / params.blocks;
  return {
    q,
    k,
    v,
    dropout,
    rest,
    T,
    B,
    H,
    D,
    S,
    queryAt: (t: number, b: number, h: number) => ((t * B + b) * H + h) * D,
    // Query heads in equal, consecutive runs share a key head.
    keyAt: (s: number, b: number, h: number) => ((s * B + b) * K + Math.floor(h / (H / K))) * D,
    dropoutAt: (b: number, h: number, t: number, s: number) => ((b * H + h) * T + t) * S + s,
    /** Keys that a query's row of saved probabilities spans; some of them may be invisible to it. */
    spanOf: (t: number) => (params.causal ? (Math.floor(t / rows) + 1) * rows : S),
    blockOf: (t: number) => Math.floor(t / rows),
    rowAt: (t: number, b: number, h: number, span: number) => ((b * H + h) * rows + (t % rows)) * span,
    isVisible: (t: number, b: number, s: number) =>
      (!params.causal || s <= t) && (keyMask === undefined || keyMask.data[b * S + s] !== 0),
  };
}

type Layout = ReturnType<typeof layout>;

function forEachQuery({ T, B, H }: Layout, visit: (t: number, b: number, h: number) => void): void {
  for (let b = 0; b < B; b++) for (let h = 0; h < H; h++) for (let t = 0; t < T; t++) visit(t, b, h);
}

/** Softmax over the visible keys; zeros when there is none. */
function probabilities(of: Layout, scale: number, t: number, b: number, h: number): Float64Array {
  const { q, k, D } = of;
  const weights = new Float64Array(of.spanOf(t));
  const scores = weights.map((_, s) => {
    if (!of.isVisible(t, b, s)) return -Infinity;
    let score = 0;
    for (let d = 0; d < D; d++) score += q.data[of.queryAt(t, b, h) + d]! * k.data[of.keyAt(s, b, h) + d]!;
    return score * scale;
  });
  const peak = scores.reduce((a, score) => Math.max(a, score), -Infinity);
  if (peak === -Infinity) return weights;
  const exps = scores.map((score) => Math.exp(score - peak));
  const total = exps.reduce((a, e) => a + e, 0);
  return exps.map((e) => e / total);
}

export const attentionKernels = {
  attention: (params, inputs, outputs) => {
    const of = layout(params, inputs);
    const results = outputs.map(({ shape }) => new Float64Array(sizeOf(shape)));
    const out = results[0]!;
    forEachQuery(of, (t, b, h) => {
      const weights = probabilities(of, params.scale, t, b, h);
      // Saved before dropout: output 1 + block holds [B, H, rows, span].
      results[1 + of.blockOf(t)]!.set(weights, of.rowAt(t, b, h, weights.length));
      weights.forEach((weight, s) => {
        const kept = weight * (of.dropout?.data[of.dropoutAt(b, h, t, s)] ?? 1);
        for (let d = 0; d < of.D; d++)
          out[of.queryAt(t, b, h) + d]! += kept * of.v.data[of.keyAt(s, b, h) + d]!;
      });
    });
    return results;
  },
  attentionGrad: (params, inputs, outputs) => {
    const of = layout(params, inputs);
    const [dOut, , ...saved] = of.rest as [TensorData, TensorData, ...TensorData[]];
    const [dq, dk, dv] = outputs.map(({ shape }) => new Float64Array(sizeOf(shape))) as [
      Float64Array,
      Float64Array,
      Float64Array,
    ];
    forEachQuery(of, (t, b, h) => {
      const span = of.spanOf(t);
      const row = of.rowAt(t, b, h, span);
      const weights = saved[of.blockOf(t)]!.data.subarray(row, row + span);
      const qAt = of.queryAt(t, b, h);
      const dWeights = new Float64Array(span);
      for (let s = 0; s < span; s++) {
        const drop = of.dropout?.data[of.dropoutAt(b, h, t, s)] ?? 1;
        const vAt = of.keyAt(s, b, h);
        for (let d = 0; d < of.D; d++) {
          dWeights[s]! += dOut.data[qAt + d]! * of.v.data[vAt + d]! * drop;
          dv[vAt + d]! += weights[s]! * drop * dOut.data[qAt + d]!;
        }
      }
      const along = dWeights.reduce((sum, dWeight, s) => sum + dWeight * weights[s]!, 0);
      for (let s = 0; s < span; s++) {
        const dScore = weights[s]! * (dWeights[s]! - along) * params.scale;
        const kAt = of.keyAt(s, b, h);
        for (let d = 0; d < of.D; d++) {
          dq[qAt + d]! += dScore * of.k.data[kAt + d]!;
          dk[kAt + d]! += dScore * of.q.data[qAt + d]!;
        }
      }
    });
    return [dq, dk, dv];
  },
} satisfies Partial<{ [K in OpName]: ReferenceKernel<K> }>;
