// Section `optimizer`: the update rule and what happens when the numbers break.

import * as z from "zod";
import { choice, custom, defineSection, field, flag, orNull, real, whole } from "../field.js";

const beta = z.number().gte(0).lt(1);

export const optimizer = defineSection({
  name: "optimizer",
  summary: "Update rule, its constants, clipping, and the policy for non-finite numbers.",
  shape: {
    name: field(choice(["adamw", "muon"]), "adamw", "The update rule."),
    lr: field(real({ above: 0 }), 3e-4, "Peak learning rate."),
    betas: field(
      custom(
        z.tuple([beta, beta]),
        "a list of two numbers, each from 0 up to but not including 1, such as [0.9, 0.95]",
      ),
      [0.9, 0.95],
      "AdamW's decay rates of the first and second moment.",
    ),
    eps: field(real({ above: 0 }), 1e-8, "AdamW's term against division by zero."),
    weight_decay: field(real({ min: 0 }), 0.1, "Decoupled weight decay of matrices."),
    fused: field(orNull(flag()), null, "Ask for one fused update kernel; null means where there is one."),
    grad_clip: field(
      orNull(real({ above: 0 })),
      null,
      "Largest global gradient norm; null means no clipping.",
    ),
    muon_plus: field(flag(), false, "Normalise rows and columns of Muon's update (Muon only)."),
    cautious: field(flag(), false, "Drop the parts of an update whose sign disagrees with the gradient."),
    muon_momentum: field(real({ min: 0, below: 1 }), 0.95, "Momentum of Muon."),
    muon_ns_steps: field(whole({ min: 1 }), 5, "Newton-Schulz iterations of Muon."),
    muon_norm_eps: field(real({ above: 0 }), 1e-8, "Term against division by zero in muon_plus."),
    non_finite: field(
      choice(["stop", "skip"]),
      "stop",
      "What a NaN or infinite loss or gradient does: end the run (exit 5), or skip that update.",
    ),
    max_consecutive_skips: field(
      whole({ min: 1 }),
      10,
      'Skipped updates in a row that end the run when non_finite is "skip".',
    ),
  },
  checks: [
    {
      at: "muon_plus",
      needs: ["name", "muon_plus"],
      test: ({ name, muon_plus }) =>
        muon_plus && name !== "muon"
          ? `needs optimizer.name "muon", but it is "${name}"; change the name or set muon_plus to false`
          : undefined,
    },
  ],
});
