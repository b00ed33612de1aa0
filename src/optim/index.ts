// The table of optimisers, by the names that configurations use.

import { adamw } from "./adamw.js";
import { withCaution } from "./cautious.js";
import { addCustomRule, type CustomRule, customRule } from "./custom-rule.js";
import { lion } from "./lion.js";
import { muon } from "./muon.js";
import type { Optimizer } from "./optimizer.js";
import { sgd } from "./sgd.js";

/** Every rule that comes along, ready for cautious updates. */
export const optimizers: Readonly<Record<string, Optimizer>> = {
  adamw: withCaution(adamw),
  muon,
  sgd: withCaution(sgd),
  lion: withCaution(lion),
};

/** By the name in a configuration: one that comes along, or one that was registered in this thread. */
export function optimizerNamed(name: string): Optimizer | undefined {
  return Object.hasOwn(optimizers, name) ? optimizers[name] : customRule(name);
}

/**
 * Makes a rule available as `optimizer.name` in this thread. Training runs in a thread of its own, so a rule belongs
 * into a plugin, which both load.
 * @throws ConfigError for what is no rule, and for a name that is taken unless `replace` is set.
 */
export function registerOptimizer(rule: CustomRule, options: { replace?: boolean } = {}): void {
  addCustomRule(rule, (name) => Object.hasOwn(optimizers, name), withCaution, options);
}

export { type CustomRule, customRuleNames, type RuleTensor } from "./custom-rule.js";
export type {
  CautiousHyper,
  MuonHyper,
  Optimizer,
  OptimizerHyper,
  Region,
  RegionTensor,
  UpdateStep,
  Workspace,
} from "./optimizer.js";
