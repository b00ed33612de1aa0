// Rules between keys of different sections. Rules within one section stand in that section's file.

import { scheduleHorizon } from "./derived.js";
import type { SpeedtronicConfig } from "./schema.js";

export interface CrossCheck {
  /** Canonical path that the problem is reported at. */
  readonly at: string;
  /** Paths that must hold valid values for the rule to run. */
  readonly needs: readonly string[];
  /** Warnings are reported but accepted; the default is a problem. */
  readonly severity?: "warning";
  test(config: SpeedtronicConfig, isSet: (path: string) => boolean): string | undefined;
}

export const crossChecks: readonly CrossCheck[] = [
  {
    at: "data.block_size",
    needs: ["data.block_size", "model.max_seq_len"],
    test: ({ data, model }) =>
      data.block_size > model.max_seq_len
        ? `${data.block_size} tokens do not fit the model's context; lower it, or raise model.max_seq_len (${model.max_seq_len})`
        : undefined,
  },
  {
    at: "data.vocab_size",
    needs: ["data.vocab_size", "model.vocab_size"],
    test: ({ data, model }) =>
      data.vocab_size !== model.vocab_size
        ? `${data.vocab_size} contradicts model.vocab_size ${model.vocab_size}; leave it out, or make them equal`
        : undefined,
  },
  {
    at: "data.max_steps",
    needs: ["data.max_steps", "run.max_steps"],
    severity: "warning",
    test: ({ data, run }, isSet) =>
      data.max_steps !== null && isSet("run.max_steps") && data.max_steps !== run.max_steps
        ? `the run ends at ${data.max_steps}, not at run.max_steps ${run.max_steps}; keep one of the two`
        : undefined,
  },
  {
    at: "scheduler.warmup_steps",
    needs: ["scheduler.warmup_steps", "scheduler.max_steps", "data.max_steps", "run.max_steps"],
    severity: "warning",
    test: ({ scheduler, data, run }) => {
      const end = data.max_steps ?? run.max_steps;
      return scheduler.warmup_steps > end
        ? `the run ends at step ${end}, before the warm-up of ${scheduler.warmup_steps} steps does; the full rate is never used`
        : undefined;
    },
  },
  {
    at: "scheduler.decay_steps",
    needs: [
      "scheduler.name",
      "scheduler.decay_steps",
      "scheduler.warmup_steps",
      "scheduler.max_steps",
      "data.max_steps",
      "run.max_steps",
    ],
    severity: "warning",
    test: (config) => {
      const { name, decay_steps, warmup_steps } = config.scheduler;
      const horizon = scheduleHorizon(config);
      return name === "wsd" && decay_steps !== null && decay_steps + warmup_steps > horizon
        ? `the decay of ${decay_steps} steps and the warm-up of ${warmup_steps} do not both fit before step ${horizon}; the decay begins when the warm-up is over`
        : undefined;
    },
  },
];
