// Section `scheduler`: how the learning rate changes over the run.

import { customScheduleNames, decayShapes, scheduleNames } from "../../schedule/curve.js";
import { movedEnds } from "../../schedule/run-schedule.js";
import { choice, defineSection, field, orNull, real, whole } from "../field.js";

const wsd = { "warmup-stable-decay": "wsd", warmup_stable_decay: "wsd" } as const;

export const scheduler = defineSection({
  name: "scheduler",
  summary: "Warm-up and decay of the learning rate.",
  shape: {
    name: field(
      choice(scheduleNames),
      "cosine",
      "Curve after the warm-up: a decay until max_steps, none, √(warm-up/step), or wsd, the full rate and a decay at the end.",
      {
        synonyms: { "inverse-sqrt": "inverse_sqrt", inverse_square_root: "inverse_sqrt", ...wsd },
        registered: customScheduleNames,
      },
    ),
    warmup_steps: field(whole({ min: 0 }), 100, "Steps over which the rate rises linearly to its peak."),
    max_steps: field(
      orNull(whole({ min: 1 })),
      null,
      "Step at which the decay ends; null follows the step at which the run ends.",
    ),
    min_lr_ratio: field(
      real({ min: 0, max: 1 }),
      0.1,
      "Where the decay ends, and what inverse_sqrt keeps, as a share of the peak rate.",
    ),
    decay_steps: field(
      orNull(whole({ min: 1 })),
      null,
      "Steps of the decay of wsd; null means a fifth of the steps until the decay ends.",
    ),
    decay_shape: field(
      choice(decayShapes),
      "linear",
      "How wsd decays; sqrt falls as one minus the square root of the part that is done.",
    ),
    moved_end: field(
      choice(movedEnds),
      "continue",
      "What a resume does whose decay ends at another step: go on from the present rate, return to the new curve over warmup_steps, or take it at once.",
    ),
  },
});
