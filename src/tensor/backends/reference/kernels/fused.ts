// Reference kernels of the fused operators other than attention, with the extra outputs that their gradient
// rules read.

import type { OpName } from "../../../ops/params.js";
import { dropoutBits, dropoutKeys, dropoutScale, dropoutThreshold } from "../../../random.js";
import { sizeOf } from "../../../shape.js";
import { checkedIndex, type ReferenceKernel } from "../kernel.js";
import { logistic } from "../special.js";

export const fusedKernels = {
  layerNorm: ({ eps }, [x, weight, bias], [, stats]) => {
    const width = x!.shape.at(-1)!;
    const rows = sizeOf(stats!.shape);
    const [y, average, inverseStd] = [
      new Float64Array(rows * width),
      new Float64Array(rows),
      new Float64Array(rows),
    ];
    for (let row = 0; row < rows; row++) {
      const values = Float64Array.from(x!.data.subarray(row * width, (row + 1) * width));
      const mean = values.reduce((sum, v) => sum + v, 0) / width;
      const variance = values.reduce((sum, v) => sum + (v - mean) ** 2, 0) / width;
      average[row] = mean;
      inverseStd[row] = 1 / Math.sqrt(variance + eps);
      values.forEach((v, i) => {
        y[row * width + i] = (v - mean) * inverseStd[row]! * weight!.data[i]! + bias!.data[i]!;
      });
    }
    return [y, average, inverseStd];
  },
  rmsNorm: ({ eps }, [x, weight], [, stats]) => {
    const width = x!.shape.at(-1)!;
    const rows = sizeOf(stats!.shape);
    const [y, inverseRms] = [new Float64Array(rows * width), new Float64Array(rows)];
    for (let row = 0; row < rows; row++) {
      const values = Float64Array.from(x!.data.subarray(row * width, (row + 1) * width));
      inverseRms[row] = 1 / Math.sqrt(values.reduce((sum, v) => sum + v * v, 0) / width + eps);
      values.forEach((v, i) => {
        y[row * width + i] = v * inverseRms[row]! * weight!.data[i]!;
      });
    }
    return [y, inverseRms];
  },
  dropoutMask: ({ shape, rate, site }, [rng]) => {
    const [k0, k1] = dropoutKeys(rng!.data[0]!, rng!.data[1]!, site);
    const threshold = dropoutThreshold(rate);
    const kept = dropoutScale(rate);
    return [
      Float64Array.from({ length: sizeOf(shape) }, (_, i) =>
        dropoutBits(k0, k1, i) >= threshold ? kept : 0,
      ),
    ];
  },
  rotaryEmbedding: (_, [x, cos, sin]) => {
    const [T, B, H, D] = x!.shape as [number, number, number, number];
    const half = D / 2;
    const result = new Float64Array(x!.data.length);
    for (let row = 0; row < T * B * H; row++) {
      const t = Math.floor(row / (B * H));
      for (let j = 0; j < half; j++) {
        const [c, s] = [cos!.data[t * half + j]!, sin!.data[t * half + j]!];
        const [first, second] = [x!.data[row * D + j]!, x!.data[row * D + half + j]!];
        result[row * D + j] = first * c - second * s;
        result[row * D + half + j] = second * c + first * s;
      }
    }
    return [result];
  },
  swiglu: (_, [gate, up]) => {
    const sigma = Float64Array.from(gate!.data, logistic);
    const activated = sigma.map((s, i) => s * gate!.data[i]!);
    return [activated.map((a, i) => a * up!.data[i]!), activated, sigma];
  },
  linearCrossEntropy: ({ ignoreIndex }, [hidden, weight, labels]) => {
    const [V, D] = weight!.shape as [number, number];
    let [lossSum, count] = [0, 0];
    const hiddenGrad = new Float64Array(hidden!.data.length);
    const denseWeightGrad = new Float64Array(V * D);
    labels!.data.forEach((label, n) => {
      if (label === ignoreIndex) return;
      checkedIndex("linearCrossEntropy", label, n, V);
      const row = Float64Array.from(hidden!.data.subarray(n * D, (n + 1) * D));
      const logits = new Float64Array(V).map((_, token) =>
        row.reduce((sum, h, d) => sum + h * weight!.data[token * D + d]!, 0),
      );
      const peak = logits.reduce((a, logit) => Math.max(a, logit), -Infinity);
      const lse = peak + Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit - peak), 0));
      lossSum += lse - logits[label]!;
      count += 1;
      logits.forEach((logit, token) => {
        const probability = Math.exp(logit - lse);
        const error = token === label ? probability - 1 : probability;
        for (let d = 0; d < D; d++) {
          hiddenGrad[n * D + d]! += error * weight!.data[token * D + d]!;
          denseWeightGrad[token * D + d]! += probability * row[d]!;
        }
      });
    });
    return [Float64Array.of(lossSum), Float64Array.of(count), hiddenGrad, denseWeightGrad];
  },
} satisfies Partial<{ [K in OpName]: ReferenceKernel<K> }>;
