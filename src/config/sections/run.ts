// Section `run`: what the run is called, where it works and how long it goes.

import { defineSection, field, orNull, text, whole } from "../field.js";

export const run = defineSection({
  name: "run",
  summary: "Identity, length and place of the run.",
  shape: {
    name: field(
      text(),
      "speedtronic-run",
      "A name for people, and of the run's folder where output_dir is not set; it is saved in every checkpoint.",
    ),
    seed: field(
      whole(),
      1234,
      "Seed of initialisation and dropout, and of the data unless data.seed is set.",
    ),
    device: field(text(), "auto", 'Where to compute: "auto" or "cpu".'),
    max_steps: field(
      whole({ min: 1 }),
      1000,
      "Optimizer steps at which the run ends, counted from its first start (a resumed run stops at the same number).",
    ),
    output_dir: field(
      text(),
      "runs",
      "Folder of everything the run writes; base of relative checkpoint paths. When left out, and name is set: runs/NAME.",
    ),
    log_every: field(
      orNull(whole({ min: 1 })),
      null,
      "Short for logging.every_steps, which takes this value unless it is set itself.",
    ),
    threads: field(
      orNull(whole({ min: 1, max: 256 })),
      null,
      "Threads of the tensor engine; null means all cores.",
    ),
  },
});
