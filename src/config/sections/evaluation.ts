// Section `evaluation`: how often the held-out part of the data is scored, and how much of it.

import { defineSection, field, orNull, whole } from "../field.js";

export const evaluation = defineSection({
  name: "evaluation",
  summary: "Validation loss on the part that data.validation_fraction holds out.",
  shape: {
    every_steps: field(
      orNull(whole({ min: 1 })),
      null,
      "Steps between two evaluations; null means once, at the end, if there is held-out data.",
    ),
    max_batches: field(
      orNull(whole({ min: 1 })),
      null,
      "Batches per evaluation; null means all held-out data.",
    ),
    batch_size: field(
      orNull(whole({ min: 1 })),
      null,
      "Samples per batch; null means data.micro_batch_size.",
    ),
  },
});
