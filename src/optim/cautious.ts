// Cautious updates (Liang et al. 2024) over any rule: the rule runs, then every value whose change has not the sign
// that its gradient asks for goes back. The state of the rule advances as without.

import type { Kernels } from "../tensor/kernels/bank.js";
import { sizeOf } from "../tensor/shape.js";
import { invariant } from "../util/errors.js";
import { type CautiousHyper, keptShare, type Optimizer } from "./optimizer.js";

/** Share of agreeing values below which rescaling grows no further. */
const leastShare = 1e-3;

export interface CautiousPart {
  readonly parameter: number;
  readonly gradient: number;
  /** Values with padding. */
  readonly length: number;
  readonly shape: readonly number[];
}

/**
 * Runs `move`, which updates one tensor, and takes back what disagrees with the gradient.
 *
 * @param kept what weight decay leaves of the tensor, as `move` applies it
 * @param before room for the tensor's values
 */
export function applyCautiously(
  kernels: Kernels,
  { parameter, gradient, length, shape }: CautiousPart,
  kept: number,
  { masksDecay, rescales }: CautiousHyper,
  before: number,
  move: () => void,
): void {
  kernels.copy(before, parameter, length);
  move();
  const base = masksDecay ? 1 : kept;
  if (!rescales) {
    kernels.keepAgreeing(parameter, before, gradient, length, base, 1);
    return;
  }
  const share = kernels.countAgreeing(parameter, before, gradient, length, base) / sizeOf(shape);
  kernels.keepAgreeing(parameter, before, gradient, length, base, 1 / Math.max(share, leastShare));
}

/** A rule for single values, made cautious where the constants ask for it. */
export function withCaution(rule: Optimizer): Optimizer {
  return {
    ...rule,
    update(kernels, region, hyper, step, workspace) {
      const { cautious, weightDecay } = hyper;
      if (!cautious) return rule.update(kernels, region, hyper, step, workspace);
      invariant(workspace && region.tensors, "a cautious update knows its tensors and has room to work");
      const kept = keptShare(region.decays, step.lr, weightDecay);
      for (const { start, length, shape } of region.tensors) {
        const part = {
          parameter: region.parameter + 4 * start,
          gradient: region.gradient + 4 * start,
          slots: region.slots.map((offset) => offset + 4 * start),
          length,
          shape,
          decays: region.decays,
          tensors: [{ start: 0, length, shape }],
        };
        const move = () => void rule.update(kernels, part, hyper, step, workspace);
        applyCautiously(kernels, part, kept, cautious, workspace.before, move);
      }
    },
  };
}
