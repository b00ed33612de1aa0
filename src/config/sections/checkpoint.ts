// Section `checkpoint`: when the state of a run is saved, where, and how much of it is kept.

import { defineSection, field, flag, orNull, text, whole } from "../field.js";

export const checkpoint = defineSection({
  name: "checkpoint",
  summary: "Saving and resuming.",
  shape: {
    enabled: field(flag(), true, "Whether checkpoints are written."),
    directory: field(text(), "checkpoints", "Folder of the checkpoints, relative to run.output_dir."),
    every_steps: field(
      whole({ min: 1 }),
      500,
      "Steps between two checkpoints; the end of the run is saved too.",
    ),
    keep_last: field(orNull(whole({ min: 1 })), 3, "Newest checkpoints to keep; null keeps all."),
    resume: field(flag(), false, "Continue from the newest checkpoint, or start fresh if there is none."),
    keep_best: field(
      whole({ min: 0 }),
      1,
      "Checkpoints of lowest validation loss to keep besides; only steps that were evaluated compete.",
    ),
    keep_every: field(
      orNull(whole({ min: 1 })),
      null,
      "Every multiple of this step is saved and kept for good; null for none.",
    ),
  },
});
