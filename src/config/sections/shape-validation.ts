// Section `shape_validation`: advice on sizes that suit the hardware. It never fails a run.

import * as z from "zod";
import { custom, defineSection, field, flag } from "../field.js";

export const shapeValidation = defineSection({
  name: "shape_validation",
  summary: "Advice on sizes that suit the hardware.",
  shape: {
    enabled: field(flag(), true, "Whether advice is given."),
    alignment: field(
      custom(
        z.union([z.int().gte(1), z.enum(["auto", "none"])]),
        'a whole number greater than 0, "auto" or "none"',
        ["auto", "none"],
      ),
      "auto",
      "Multiple that sizes should be of.",
      { nullMeansDefault: true },
    ),
    check_batch: field(flag(), true, "Look at batch sizes."),
    check_sequence: field(flag(), true, "Look at the sequence length."),
    check_model: field(flag(), true, "Look at the model's widths."),
    check_vocab: field(flag(), false, "Look at the vocabulary size."),
    warn_on_cpu: field(flag(), false, "Give advice on CPUs as well."),
  },
});
