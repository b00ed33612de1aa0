// One plugin: its module imported and its `register` called, in whichever thread asks. The engine's thread keeps
// optimizers only.

import { registerOptimizer } from "../../optim/index.js";
import { ConfigError, SpeedtronicError } from "../../util/errors.js";
import { importModule } from "../../util/user-module.node.js";
import type { PluginApi, PluginRegister } from "./api.js";

/**
 * Whether the module had a `register` function.
 * @throws ConfigError `plugin.failed` and those of importing; typed errors of the plugin pass through.
 */
export async function runPlugin(url: string, plugin: string, api: PluginApi): Promise<boolean> {
  const found = registerOf(await importModule(url, plugin));
  if (typeof found !== "function") return false;
  try {
    await (found as PluginRegister)(api);
  } catch (error) {
    if (error instanceof SpeedtronicError) throw error;
    const reason = error instanceof Error ? error.message : String(error);
    throw new ConfigError(`plugin ${plugin}: its register function failed: ${reason}`, {
      code: "plugin.failed",
      details: { plugin, url },
      cause: error,
    });
  }
  return true;
}

/** A named export or the default one; the exports of CommonJS are the default export of what is imported. */
function registerOf(module: Readonly<Record<string, unknown>>): unknown {
  const { register, default: whole } = module;
  if (typeof register === "function" || typeof whole === "function") return register ?? whole;
  return typeof whole === "object" && whole !== null
    ? registerOf(whole as Record<string, unknown>)
    : undefined;
}

const ignored = (): void => undefined;

const engineApi: PluginApi = {
  registerModel: ignored,
  registerDataset: ignored,
  registerTokenizer: ignored,
  registerOptimizer,
  registerSchedule: ignored,
  addHook: ignored,
};

/** The optimizers of the modules at `urls`, for the thread that updates. */
export async function loadEnginePlugins(urls: readonly string[]): Promise<void> {
  for (const url of urls) await runPlugin(url, url, engineApi);
}
