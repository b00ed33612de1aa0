// Section `lora`: training small adapters beside frozen weights. Off while `rank` is null.

import * as z from "zod";
import { custom, defineSection, field, orNull, real, text, whole } from "../field.js";

export const lora = defineSection({
  name: "lora",
  summary: "Low-rank adapters: a few trained matrices beside the frozen weights of a trained model.",
  shape: {
    rank: field(orNull(whole({ min: 1 })), null, "Rank of the adapters; null trains the model itself."),
    alpha: field(
      orNull(real({ above: 0 })),
      null,
      "Adapters are weighed by alpha / rank; null means rank, a weight of 1.",
    ),
    dropout: field(real({ min: 0, below: 1 }), 0, "Dropped share of an adapter's input in training."),
    targets: field(
      custom(z.array(z.string().min(1)).min(1), "a list of names, such as [q_proj, v_proj]"),
      ["*attn*"],
      "Linear layers that get one, by name or by what holds them; * stands for any text.",
    ),
    base: field(
      orNull(text()),
      null,
      "Weights that are adapted: a run, a checkpoint, or a safetensors file, relative to the working directory.",
    ),
  },
});
