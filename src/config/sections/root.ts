// Scalars at the root of the file. They form a section without a name, so that one mechanism serves all keys.

import * as z from "zod";
import { custom, defineSection, field, flag, whole } from "../field.js";

const nullMeansDefault = { nullMeansDefault: true };

export const root = defineSection({
  name: "",
  summary: "Keys at the root.",
  shape: {
    gradient_checkpointing: field(
      flag(),
      false,
      "Recompute activations in the backward pass to save memory.",
      nullMeansDefault,
    ),
    compile: field(flag(), false, "Compile the training graph; here it always is.", nullMeansDefault),
    ooo_backprop: field(
      flag(),
      false,
      "Schedule the backward pass over several GPU streams.",
      nullMeansDefault,
    ),
    ooo_streams: field(whole({ min: 1, max: 8 }), 4, "Streams of ooo_backprop."),
    plugins: field(
      custom(z.array(z.string().min(1)), "a list of modules, such as [./my-model.ts, some-package]"),
      [],
      "Modules that bring models, datasets, tokenizers, optimizers, schedules or hooks; paths begin at this file.",
      nullMeansDefault,
    ),
  },
});

/** Root keys that may also be written as `{enabled: …}`. */
export const ROOT_FLAGS: ReadonlySet<string> = new Set(["gradient_checkpointing", "compile", "ooo_backprop"]);
