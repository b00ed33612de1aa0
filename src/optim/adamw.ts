// AdamW with decoupled weight decay (Loshchilov and Hutter 2019), in PyTorch's formulation.

import type { Optimizer } from "./optimizer.js";

export const adamw: Optimizer = {
  name: "adamw",
  slots: ["exp_avg", "exp_avg_sq"],
  update(kernels, region, { betas: [beta1, beta2], eps, weightDecay }, { lr, count, gradScale }) {
    const [average, squares] = region.slots as [number, number];
    kernels.adamw(
      region.parameter,
      region.gradient,
      average,
      squares,
      region.length,
      gradScale,
      region.decays ? 1 - lr * weightDecay : 1,
      lr / (1 - beta1 ** count),
      beta1,
      1 - beta1,
      beta2,
      1 - beta2,
      1 / Math.sqrt(1 - beta2 ** count),
      eps,
    );
  },
};
