// Section `optimizer`: the update rule and what happens when the numbers break.

import * as z from "zod";
import { customRuleNames } from "../../optim/custom-rule.js";
import { muonPlusModes } from "../../optim/muon-plus.js";
import { choice, custom, defineSection, field, flag, orNull, real, whole } from "../field.js";

const beta = z.number().gte(0).lt(1);

export const optimizer = defineSection({
  name: "optimizer",
  summary: "Update rule, its constants, clipping, and the policy for non-finite numbers.",
  shape: {
    name: field(
      choice(["adamw", "muon", "sgd", "lion"]),
      "adamw",
      "The update rule; muon updates hidden matrices, and leaves all else to AdamW. Plugins can bring others.",
      { registered: customRuleNames },
    ),
    lr: field(real({ above: 0 }), 3e-4, "Peak learning rate."),
    betas: field(
      custom(
        z.tuple([beta, beta]),
        "a list of two numbers, each from 0 up to but not including 1, such as [0.9, 0.95]",
      ),
      [0.9, 0.95],
      "AdamW's decay rates of the first and second moment; Lion's of the update and the momentum.",
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
    muon_plus_mode: field(
      choice(muonPlusModes),
      "row_col",
      "What muon_plus normalises, in order: rows, columns, both, or nothing.",
    ),
    muon_lr: field(
      orNull(real({ above: 0 })),
      null,
      "Peak learning rate of Muon's matrices; null means optimizer.lr.",
    ),
    muon_weight_decay: field(
      orNull(real({ min: 0 })),
      null,
      "Decoupled weight decay of Muon's matrices; null means optimizer.weight_decay.",
    ),
    muon_scale: field(
      choice(["shape", "rms"]),
      "shape",
      "How Muon's updates are scaled: by √max(1, rows/columns), or to the RMS of AdamW's, 0.2·√max(rows, columns).",
    ),
    muon_routes: field(
      custom(z.record(z.string(), z.enum(["muon", "adamw"])), 'a mapping of names to "muon" or "adamw"'),
      {},
      "Exceptions to what Muon updates, by parameter name or subtree; * stands for any text, and the last that fits counts.",
    ),
    cautious_rescale: field(
      flag(),
      false,
      "Enlarge what cautious leaves of a tensor's update by the share it dropped.",
    ),
    sgd_momentum: field(real({ min: 0, below: 1 }), 0.9, "Momentum of SGD."),
    sgd_nesterov: field(flag(), true, "Whether SGD looks ahead along its momentum."),
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
