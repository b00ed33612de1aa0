// A store with the updater that training uses over it: what the tests of the optimisers run on.

import type { OptimizerHyper, UpdateStep } from "../../src/optim/index.js";
import { optimizers } from "../../src/optim/index.js";
import { referenceBackend } from "../../src/tensor/index.js";
import { loadKernels } from "../../src/tensor/kernels/load.node.js";
import type { EngineParameter } from "../../src/train/engine/contract.js";
import { ParameterStore } from "../../src/train/engine/parameter-store.js";
import { Updater } from "../../src/train/engine/updater.js";

export const muonHyper: NonNullable<OptimizerHyper["muon"]> = {
  momentum: 0.95,
  steps: 5,
  plus: "none",
  normEps: 1e-8,
  lrScale: 1,
  weightDecay: 0.1,
  scale: "shape",
};

export const hyper: OptimizerHyper = {
  betas: [0.9, 0.95],
  eps: 1e-8,
  weightDecay: 0.1,
  momentum: 0.9,
  nesterov: true,
  muon: muonHyper,
};

export const parameter = (
  name: string,
  shape: readonly number[],
  rest: Partial<EngineParameter> = {},
): EngineParameter => ({ name, shape, decays: true, trainable: true, ...rest });

export interface Bench {
  readonly store: ParameterStore;
  /** Sets the gradients and updates once. */
  step(gradients: Readonly<Record<string, readonly number[]>>, step?: Partial<UpdateStep>): Promise<void>;
}

/** Values by parameter name; what is absent starts at zero. */
export async function makeBench(
  name: string,
  parameters: readonly EngineParameter[],
  values: Readonly<Record<string, readonly number[]>>,
  changes: Partial<OptimizerHyper> = {},
): Promise<Bench> {
  const store = new ParameterStore(
    await loadKernels(),
    parameters,
    ({ rule = name }) => optimizers[rule]!.slots,
    true,
  );
  for (const [key, list] of Object.entries(values)) store.parameter(key).data.set(list);
  const updater = new Updater({ name, hyper: { ...hyper, ...changes } }, store, referenceBackend);
  return {
    store,
    async step(gradients, step = {}) {
      for (const [key, list] of Object.entries(gradients)) store.gradient(key).data.set(list);
      await updater.update({ lr: 0.02, count: 1, gradScale: 1, ...step });
    },
  };
}

/** Largest absolute difference. */
export function gap(actual: ArrayLike<number>, expected: readonly number[]): number {
  return Math.max(...expected.map((value, i) => Math.abs(actual[i]! - value)));
}
