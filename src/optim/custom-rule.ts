// Update rules of a user's own, in plain TypeScript over arrays: slower than the kernels, and free to do anything. One
// table per thread; the engine's thread has to be given the same rules.

import { ConfigError, TrainingError } from "../util/errors.js";
import { foreignError } from "../util/user-code.js";
import { keptShare, type Optimizer, type OptimizerHyper, type UpdateStep } from "./optimizer.js";

/** One tensor at the moment of its update; all arrays have its row-major values and may be written to. */
export interface RuleTensor {
  readonly shape: readonly number[];
  readonly parameter: Float32Array;
  /** Averaged and clipped. */
  readonly gradient: Float32Array;
  /** What the rule keeps, by the names of its slots; zeros before the first update. */
  readonly slots: Readonly<Record<string, Float32Array>>;
  /** What weight decay leaves of the parameter: 1 where it does not apply. */
  readonly kept: number;
}

export interface CustomRule {
  /** For `optimizer.name`. */
  readonly name: string;
  /** Names of the state per parameter value. */
  readonly slots: readonly string[];
  /** Changes `tensor.parameter` and the slots in place. `hyper` holds the constants of the section `optimizer`. */
  update(
    tensor: RuleTensor,
    hyper: Pick<OptimizerHyper, "betas" | "eps" | "weightDecay" | "momentum">,
    step: Pick<UpdateStep, "lr" | "count">,
  ): void;
}

const rules = new Map<string, Optimizer>();

/**
 * Makes `rule` available as `optimizer.name`, in this thread.
 * @throws ConfigError for what is no rule, and for a name that is taken unless `replace` is set.
 */
export function addCustomRule(
  rule: CustomRule,
  isBuiltIn: (name: string) => boolean,
  finish: (rule: Optimizer) => Optimizer,
  options: { replace?: boolean } = {},
): void {
  const { name, slots, update } = (rule ?? {}) as Partial<CustomRule>;
  if (typeof name !== "string" || !/^[a-z][a-z0-9_-]*$/.test(name))
    throw new ConfigError(
      `an optimizer needs a name of small letters, digits, "_" and "-", got ${JSON.stringify(name)}`,
      { code: "optimizer.name", details: { name } },
    );
  if (!Array.isArray(slots) || !slots.every((slot) => typeof slot === "string" && slot !== ""))
    throw new ConfigError(
      `the optimizer "${name}" must list the names of its slots, such as ["exp_avg"], or [] for none`,
      { code: "optimizer.slots", details: { name } },
    );
  if (typeof update !== "function")
    throw new ConfigError(`the optimizer "${name}" has no update function`, {
      code: "optimizer.update",
      details: { name },
    });
  if (isBuiltIn(name) || (rules.has(name) && options.replace !== true))
    throw new ConfigError(
      `an optimizer named "${name}" exists already: choose another name${isBuiltIn(name) ? "" : ", or pass { replace: true }"}`,
      { code: "optimizer.duplicate_name", details: { name } },
    );
  rules.set(name, finish(overArrays(rule)));
}

export function customRule(name: string): Optimizer | undefined {
  return rules.get(name);
}

export function customRuleNames(): string[] {
  return [...rules.keys()].sort();
}

/** The rule as the engine runs it: tensor by tensor, over views of the bank. */
function overArrays(rule: CustomRule): Optimizer {
  return {
    name: rule.name,
    slots: rule.slots,
    update(kernels, region, hyper, step, workspace) {
      const { values } = workspace ?? {};
      if (values === undefined || region.tensors === undefined)
        throw new ConfigError(`the optimizer "${rule.name}" needs an engine that shows it its tensors`, {
          code: "optimizer.no_arrays",
          details: { name: rule.name },
        });
      kernels.scale(region.gradient, region.length, step.gradScale);
      const kept = keptShare(region.decays, step.lr, hyper.weightDecay);
      for (const { start, shape } of region.tensors) {
        const size = shape.reduce((product, extent) => product * extent, 1);
        const view = (offset: number) => values(offset + 4 * start, size);
        const slots = Object.fromEntries(
          rule.slots.map((slot, order) => [slot, view(region.slots[order]!)] as const),
        );
        const tensor = {
          shape,
          parameter: view(region.parameter),
          gradient: view(region.gradient),
          slots,
          kept,
        };
        try {
          rule.update(tensor, hyper, { lr: step.lr, count: step.count });
        } catch (error) {
          throw foreignError(TrainingError, "optimizer.failed", `the optimizer "${rule.name}"`, error);
        }
      }
    },
  };
}
