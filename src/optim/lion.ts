// Lion (Chen et al. 2023): the sign of an average between momentum and gradient, with decoupled weight decay.

import { keptShare, type Optimizer } from "./optimizer.js";

export const lion: Optimizer = {
  name: "lion",
  slots: ["exp_avg"],
  update(kernels, region, { betas: [beta1, beta2], weightDecay }, { lr, gradScale }) {
    kernels.lion(
      region.parameter,
      region.gradient,
      region.slots[0]!,
      region.length,
      gradScale,
      keptShare(region.decays, lr, weightDecay),
      lr,
      beta1,
      1 - beta1,
      beta2,
      1 - beta2,
    );
  },
};
