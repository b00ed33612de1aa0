// Loading what `plugins` of a configuration names: each module once per thread and process, and what it registers is
// there from then on. Which of them a run uses decides its hooks, nothing else.

import { datasetNames, registerDataset, registerTokenizer, tokenizerNames } from "../../data/registry.js";
import { modelNames, registerModel } from "../../nn/models/registry.js";
import type { Hook } from "../../observe/sink.js";
import { customRuleNames, registerOptimizer } from "../../optim/index.js";
import { customScheduleNames, registerSchedule } from "../../schedule/curve.js";
import { ConfigError } from "../../util/errors.js";
import { locateModule } from "../../util/user-module.node.js";
import type { PluginApi } from "./api.js";
import { runPlugin } from "./run-plugin.node.js";

export interface LoadedPlugins {
  readonly hooks: readonly Hook[];
}

const loaded = new Map<string, Promise<readonly Hook[]>>();
/** Where each update rule came from. */
const ruleModules = new Map<string, string>();

/** The module that brought the update rule `name`, for the thread that is to run it. */
export function moduleOfRule(name: string): string | undefined {
  return ruleModules.get(name);
}

/**
 * @param plugins paths (absolute, or relative to `folder`) and names of packages
 * @param folder where packages are looked for first. Default: the working directory.
 * @throws ConfigError `plugin.not_found`, `plugin.no_typescript`, `plugin.failed`, `plugin.registers_nothing`
 */
export async function loadPlugins(plugins: readonly string[], folder = "."): Promise<LoadedPlugins> {
  const hooks: Hook[] = [];
  for (const plugin of plugins) {
    const url = await locateModule(plugin, folder);
    let loading = loaded.get(url);
    if (loading === undefined) {
      loading = load(url, plugin);
      loaded.set(url, loading);
      // A plugin that failed may be repaired and named again.
      loading.catch(() => loaded.delete(url));
    }
    hooks.push(...(await loading));
  }
  return { hooks };
}

/** Everything that plugins can bring by name. */
const registered = (): number =>
  [modelNames(), datasetNames(), tokenizerNames(), customRuleNames(), customScheduleNames()].flat().length;

async function load(url: string, plugin: string): Promise<readonly Hook[]> {
  const hooks: Hook[] = [];
  const api: PluginApi = {
    registerModel,
    registerDataset,
    registerTokenizer,
    registerOptimizer,
    registerSchedule,
    addHook: (hook) => void hooks.push(hook),
  };
  const before = registered();
  const rules = new Set(customRuleNames());
  const hasRegister = await runPlugin(url, plugin, api);
  for (const name of customRuleNames()) if (!rules.has(name)) ruleModules.set(name, url);
  if (hasRegister || registered() > before) return hooks;
  throw new ConfigError(
    `plugin ${plugin} registers nothing: export a function register(api) that calls api.registerModel and the like. ` +
      "(A module that imports another installed copy of speedtronic registers with that copy.)",
    { code: "plugin.registers_nothing", details: { plugin, url } },
  );
}
