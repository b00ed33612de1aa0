// The table of sections. Adding a section means adding its file and one line here; everything else (types,
// defaults, validation, output, suggestions) follows from it.

import { checkpoint } from "./checkpoint.js";
import { compat } from "./compat.js";
import { data } from "./data.js";
import { distributed } from "./distributed.js";
import { evaluation } from "./evaluation.js";
import { logging } from "./logging.js";
import { lora } from "./lora.js";
import { model } from "./model.js";
import { optimizer } from "./optimizer.js";
import { precision } from "./precision.js";
import { root } from "./root.js";
import { run } from "./run.js";
import { sampling } from "./sampling.js";
import { scheduler } from "./scheduler.js";
import { shapeValidation } from "./shape-validation.js";

/** In the order in which a configuration is written out; the nameless one holds the scalars of the root. */
export const sections = [
  run,
  model,
  data,
  optimizer,
  scheduler,
  precision,
  checkpoint,
  logging,
  distributed,
  shapeValidation,
  evaluation,
  sampling,
  lora,
  root,
  compat,
] as const;
