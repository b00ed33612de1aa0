// Section `precision`: the requested number format. What a device makes of the request is decided at start-up.

import { choice, defineSection, field, orNull } from "../field.js";

export const precision = defineSection({
  name: "precision",
  summary: "Number format of the computation.",
  shape: {
    mode: field(
      choice(["auto", "bf16", "fp16", "fp32"]),
      "auto",
      "Requested format; on a CPU all become fp32.",
    ),
    dtype: field(
      orNull(choice(["bf16", "fp16", "fp32"])),
      null,
      'Older spelling of mode, read when mode is "auto".',
    ),
  },
  checks: [
    {
      at: "dtype",
      needs: ["mode", "dtype"],
      test: ({ mode, dtype }) =>
        dtype !== null && mode !== "auto" && dtype !== mode
          ? `"${dtype}" contradicts precision.mode "${mode}"; keep one of them`
          : undefined,
    },
  ],
});
