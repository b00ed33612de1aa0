// Section `sampling`: text written by the model during training, so that people see it learn.

import * as z from "zod";
import { custom, defineSection, field, flag, orNull, real, text, whole } from "../field.js";

export const sampling = defineSection({
  name: "sampling",
  summary: "Sample text during training.",
  shape: {
    every_steps: field(orNull(whole({ min: 1 })), null, "Steps between two samples; null means none."),
    at_end: field(flag(), false, "Print one sample when the run ends."),
    prompt: field(text(), "\n", "Text that the model continues; at least one token."),
    max_new_tokens: field(whole({ min: 1 }), 200, "Length of a sample in tokens."),
    temperature: field(real({ min: 0 }), 0.8, "Randomness; 0 always takes the likeliest token."),
    top_k: field(orNull(whole({ min: 1 })), 40, "Choose among the k likeliest tokens; null means all."),
    seed: field(orNull(whole()), null, "Seed of the choices; null means run.seed."),
    prompts: field(
      custom(z.array(z.string().min(1)), "a list of texts that are not empty"),
      [],
      "Further texts to continue, each in a sample of its own.",
    ),
  },
  checks: [
    {
      at: "prompt",
      needs: ["prompt"],
      test: ({ prompt }) => (prompt === "" ? "is empty; give at least one character to continue" : undefined),
    },
  ],
});
