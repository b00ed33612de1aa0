// The table of optimisers, by the names that configurations use.

import { adamw } from "./adamw.js";
import { withCaution } from "./cautious.js";
import { lion } from "./lion.js";
import { muon } from "./muon.js";
import type { Optimizer } from "./optimizer.js";
import { sgd } from "./sgd.js";

/** Every rule, ready for cautious updates. */
export const optimizers: Readonly<Record<string, Optimizer>> = {
  adamw: withCaution(adamw),
  muon,
  sgd: withCaution(sgd),
  lion: withCaution(lion),
};

export type {
  CautiousHyper,
  MuonHyper,
  Optimizer,
  OptimizerHyper,
  Region,
  RegionTensor,
  UpdateStep,
  Workspace,
} from "./optimizer.js";
