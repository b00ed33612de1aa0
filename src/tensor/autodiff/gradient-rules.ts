// The whole table of gradient rules: one row per primitive.

import type { OpName } from "../ops/params.js";
import type { GradientRule } from "./rule.js";
import { elementwiseGradients } from "./rules/elementwise.js";
import { fusedGradients } from "./rules/fused.js";
import { linalgGradients } from "./rules/linalg.js";
import { movementGradients } from "./rules/movement.js";

export const gradientRules = {
  ...elementwiseGradients,
  ...linalgGradients,
  ...movementGradients,
  ...fusedGradients,
} satisfies { [K in OpName]: GradientRule<K> };
