// The whole table of ONNX lowerings: one row per primitive.

import type { OpName } from "../../ops/params.js";
import type { Lowering } from "./lowering.js";
import { elementwiseLowerings } from "./lowerings/elementwise.js";
import { fusedLowerings } from "./lowerings/fused.js";
import { linalgLowerings } from "./lowerings/linalg.js";
import { movementLowerings } from "./lowerings/movement.js";

export const lowerings = {
  ...elementwiseLowerings,
  ...linalgLowerings,
  ...movementLowerings,
  ...fusedLowerings,
} satisfies { [K in OpName]: Lowering<K> };
