// The table of optimisers, by the names that configurations use.

import { adamw } from "./adamw.js";
import type { Optimizer } from "./optimizer.js";

export const optimizers: Readonly<Record<string, Optimizer>> = { adamw };

export type { Optimizer, OptimizerHyper, Region, UpdateStep } from "./optimizer.js";
