// Section `logging`: where text and metrics go, and how often.

import { choice, defineSection, field, orNull, text, whole } from "../field.js";

export const logging = defineSection({
  name: "logging",
  summary: "Text log and metrics.",
  shape: {
    level: field(
      choice(["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]),
      "INFO",
      "Least level that is printed.",
      { synonyms: { warn: "WARNING", fatal: "CRITICAL", notset: "DEBUG" } },
    ),
    file: field(orNull(text()), null, "Text log file, relative to the working directory."),
    every_steps: field(whole({ min: 1 }), 1, "Steps between two metric lines; when left out, run.log_every."),
    json_file: field(orNull(text()), null, "Metrics as JSON lines, relative to the working directory."),
  },
});
