// What a configuration says about the outer round, in the protocol's terms.

import type { SpeedtronicConfig } from "../config/schema.js";
import type { MergeSettings } from "../distributed/protocol/master-contract.js";

/** With `compat.outer_round` everything that the Python system does not do is off. */
export function mergeSettings({
  distributed,
  compat,
}: Pick<SpeedtronicConfig, "distributed" | "compat">): MergeSettings {
  const outer = {
    outerLr: distributed.outer_lr,
    outerMomentum: distributed.outer_momentum,
    keepVersions: distributed.keep_versions,
  };
  if (compat.outer_round) {
    return {
      ...outer,
      momentumWarmupRounds: 0,
      merge: "python",
      stalenessLimit: Number.POSITIVE_INFINITY,
      stalenessDiscount: 1,
      clipFactor: null,
      quorum: 1,
      graceMs: 0,
    };
  }
  return {
    ...outer,
    momentumWarmupRounds: distributed.outer_momentum_warmup_rounds,
    merge: distributed.merge,
    stalenessLimit: distributed.staleness_limit,
    stalenessDiscount: distributed.staleness_discount,
    clipFactor: distributed.clip_factor,
    quorum: distributed.quorum,
    graceMs: distributed.grace_seconds * 1000,
  };
}
