// What a run of several nodes does with the buffers of a model, from what the model says of them.

import type { SpeedtronicConfig } from "../config/schema.js";
import type { BufferPolicies } from "../distributed/wire/buffer-merge.js";
import type { TrainableModel } from "../nn/contract.js";
import { Buffer } from "../nn/module.js";

/** Undefined where there is no buffer, and under `compat.outer_round`, which steps them like weights. */
export function bufferPolicies(
  model: TrainableModel,
  { compat }: Pick<SpeedtronicConfig, "compat">,
): BufferPolicies | undefined {
  if (compat.outer_round) return undefined;
  const policies = model
    .stateEntries()
    .flatMap(({ name, owner }) => (owner instanceof Buffer ? [[name, owner.merge] as const] : []));
  return policies.length === 0 ? undefined : Object.fromEntries(policies);
}
