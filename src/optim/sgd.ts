// Gradient descent with momentum, in Nesterov's form where asked for, as PyTorch's SGD without dampening; weight
// decay is decoupled, as for the other rules here.

import { keptShare, type Optimizer } from "./optimizer.js";

export const sgd: Optimizer = {
  name: "sgd",
  slots: ["momentum_buffer"],
  update(kernels, region, { momentum = 0, nesterov = false, weightDecay }, { lr, gradScale }) {
    kernels.sgd(
      region.parameter,
      region.gradient,
      region.slots[0]!,
      region.length,
      gradScale,
      keptShare(region.decays, lr, weightDecay),
      lr,
      momentum,
      nesterov ? 1 : 0,
      nesterov ? momentum : 1,
    );
  },
};
