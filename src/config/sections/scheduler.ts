// Section `scheduler`: how the learning rate changes over the run.

import { choice, defineSection, field, orNull, real, whole } from "../field.js";

export const scheduler = defineSection({
  name: "scheduler",
  summary: "Warm-up and decay of the learning rate.",
  shape: {
    name: field(choice(["cosine", "constant"]), "cosine", "Curve after the warm-up."),
    warmup_steps: field(whole({ min: 0 }), 100, "Steps over which the rate rises linearly to its peak."),
    max_steps: field(
      orNull(whole({ min: 1 })),
      null,
      "Step at which the decay ends; null follows the step at which the run ends.",
    ),
    min_lr_ratio: field(real({ min: 0, max: 1 }), 0.1, "Where the cosine ends, as a share of the peak rate."),
  },
});
