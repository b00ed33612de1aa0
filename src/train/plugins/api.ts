// What a plugin may bring, as it is handed over to its `register` function. A plugin that uses this alone imports
// nothing of the package, so it cannot meet a second copy of it.

import type { registerDataset, registerTokenizer } from "../../data/registry.js";
import type { registerModel } from "../../nn/models/registry.js";
import type { Hook } from "../../observe/sink.js";
import type { registerOptimizer } from "../../optim/index.js";
import type { registerSchedule } from "../../schedule/curve.js";

export interface PluginApi {
  /** For `model.name`. */
  readonly registerModel: typeof registerModel;
  /** For `data.dataset`. */
  readonly registerDataset: typeof registerDataset;
  /** For `data.tokenizer`. */
  readonly registerTokenizer: typeof registerTokenizer;
  /** For `optimizer.name`. Training runs in a thread of its own, which loads the plugin once more for this. */
  readonly registerOptimizer: typeof registerOptimizer;
  /** For `scheduler.name`. */
  readonly registerSchedule: typeof registerSchedule;
  /** Told of every event of the runs whose configuration names the plugin. */
  addHook(hook: Hook): void;
}

/** The export `register` of a module that is a plugin; its default export may be this function, too. */
export type PluginRegister = (api: PluginApi) => void | Promise<void>;
