// The rules of a run may change with its master, but never in silence: what the newest version was made with stands in
// its record.

import type { MergeSettings } from "../protocol/master-contract.js";
import { momentumAt } from "../protocol/merge-policy.js";
import type { RunHead } from "./aggregator-repository.js";

/** Payload of `master_settings_changed`; undefined where the version was made as it would be now, or does not say. */
export function settingsChange(
  { outerLr, outerMomentum, momentumWarmupRounds }: MergeSettings,
  { record: { outerStep }, facts }: RunHead,
): Readonly<Record<string, number>> | undefined {
  if (facts.outerLr === undefined || facts.outerMomentum === undefined) return undefined;
  const momentum = momentumAt(outerStep, outerMomentum, momentumWarmupRounds);
  if (facts.outerLr === outerLr && facts.outerMomentum === momentum) return undefined;
  return {
    outer_step: outerStep,
    outer_lr: outerLr,
    previous_outer_lr: facts.outerLr,
    outer_momentum: momentum,
    previous_outer_momentum: facts.outerMomentum,
  };
}
