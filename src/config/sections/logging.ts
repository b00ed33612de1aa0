// Section `logging`: where text and metrics go, and how often.

import { choice, custom, defineSection, field, orNull, text, whole } from "../field.js";
import { expectedSinks, findSinkProblem, sinkList } from "./sinks.js";

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
    sinks: field(
      orNull(custom(sinkList, expectedSinks)),
      null,
      "Where events go besides file and json_file, each with its own every_steps; paths are relative to run.output_dir. Null means the console, and metrics.jsonl in run.output_dir where the run keeps checkpoints and json_file is not set.",
    ),
    layer_norms: field(
      orNull(whole({ min: 1 })),
      null,
      "Steps between two events with the norms of each parameter, its gradient and its update; null means none.",
    ),
  },
  checks: [{ at: "sinks", needs: ["sinks"], test: ({ sinks }) => findSinkProblem(sinks) }],
});
