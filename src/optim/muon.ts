// Muon (Jordan et al. 2024): momentum in Nesterov's form, made orthogonal by Newton-Schulz iterations. Equally
// shaped matrices go through the iterations as one stack.

import type { Kernels } from "../tensor/kernels/bank.js";
import { invariant } from "../util/errors.js";
import { groupBy } from "../util/group-by.js";
import { applyCautiously } from "./cautious.js";
import { keptShare, type MuonHyper, type Optimizer, type Region, type RegionTensor } from "./optimizer.js";

export const muon: Optimizer = {
  name: "muon",
  slots: ["momentum_buffer"],
  isForMatrices: true,
  async update(kernels, region, hyper, step, workspace) {
    const { muon: own, cautious } = hyper;
    invariant(own && workspace && region.tensors, "muon has its constants, its matrices and room to work");
    const lr = step.lr * own.lrScale;
    const kept = keptShare(region.decays, lr, own.weightDecay);
    for (const stack of stacksOf(region.tensors, workspace.capacity)) {
      const [rows, columns] = stack[0]!.shape as [number, number];
      const stride = 4 * stack[0]!.length;
      for (const [index, tensor] of stack.entries())
        advance(kernels, region, tensor, own, step.gradScale, workspace.direction + index * stride);
      await workspace.orthogonalize(stack.length, rows, columns);
      const size = lr * updateScale(own.scale, rows, columns);
      for (const [index, { start, length, shape }] of stack.entries()) {
        const parameter = region.parameter + 4 * start;
        const move = () =>
          kernels.decayedStep(parameter, workspace.result + index * stride, length, kept, size);
        const part = { parameter, gradient: region.gradient + 4 * start, length, shape };
        if (cautious) applyCautiously(kernels, part, kept, cautious, workspace.before, move);
        else move();
      }
    }
  },
};

/** How much an orthogonal update of this shape is scaled. */
export function updateScale(scale: MuonHyper["scale"], rows: number, columns: number): number {
  return scale === "rms" ? 0.2 * Math.sqrt(Math.max(rows, columns)) : Math.sqrt(Math.max(1, rows / columns));
}

/** Takes the gradient into the momentum and writes the direction, which is not scaled yet, to `into`. */
function advance(
  kernels: Kernels,
  region: Region,
  { start, length }: RegionTensor,
  { momentum }: MuonHyper,
  gradScale: number,
  into: number,
): void {
  const buffer = region.slots[0]! + 4 * start;
  const gradient = region.gradient + 4 * start;
  kernels.nesterovDirection(into, gradient, buffer, length, gradScale, momentum, 1 - momentum);
}

/** Equally shaped matrices together, at most `capacity` values a stack. Padded ones cannot be stacked. */
function stacksOf(tensors: readonly RegionTensor[], capacity: number): RegionTensor[][] {
  const byShape = groupBy(tensors, ({ shape }) => shape.join());
  return [...byShape.values()].flatMap((equal) => {
    const { shape, length } = equal[0]!;
    const isPadded = shape.reduce((a, b) => a * b, 1) !== length;
    const most = isPadded ? 1 : Math.max(1, Math.floor(capacity / length));
    const stacks: RegionTensor[][] = [];
    for (let i = 0; i < equal.length; i += most) stacks.push(equal.slice(i, i + most));
    return stacks;
  });
}
