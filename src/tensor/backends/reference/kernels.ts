// The whole table of reference kernels: one row per primitive.

import type { OpName } from "../../ops/params.js";
import type { ReferenceKernel } from "./kernel.js";
import { attentionKernels } from "./kernels/attention.js";
import { elementwiseKernels } from "./kernels/elementwise.js";
import { fusedKernels } from "./kernels/fused.js";
import { indexingKernels } from "./kernels/indexing.js";
import { linalgKernels } from "./kernels/linalg.js";
import { movementKernels } from "./kernels/movement.js";

export const kernels = {
  ...elementwiseKernels,
  ...linalgKernels,
  ...movementKernels,
  ...indexingKernels,
  ...fusedKernels,
  ...attentionKernels,
} satisfies { [K in OpName]: ReferenceKernel<K> };
