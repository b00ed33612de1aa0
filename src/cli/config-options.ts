// The options `--config` and `--set`, which every command that reads a configuration has, and reading them.

import type { Command } from "commander";
import { describeKey } from "../config/key-help.js";
import type { Override } from "../config/overrides.js";
import type { SpeedtronicConfig } from "../config/schema.js";
import { collect, requireOptions } from "./command.js";
import type { CliContext } from "./context.js";

export interface ConfigOptions {
  readonly config: string;
  readonly set?: readonly string[];
}

export function addConfigOptions(command: Command): void {
  command
    .usage("--config <file> [options]")
    .option("-c, --config <file>", "configuration file: YAML, or JSON if it ends in .json (required)")
    .option(
      "-s, --set <key.path=value>",
      "set one key, as in --set optimizer.lr=3e-4; may be repeated, the last one wins",
      collect,
    );
}

/** The description of an option that sets one key: what the schema says of it. */
export function optionText(path: string): string {
  return `${path}: ${describeKey(path)}`;
}

/** Reads the file, lays `--set` and then `extra` over it, and prints warnings. */
export async function readConfig(
  command: Command,
  context: CliContext,
  extra: readonly Override[] = [],
): Promise<SpeedtronicConfig> {
  requireOptions(command, ["config"]);
  const options = command.opts<ConfigOptions>();
  const { loadConfigFile } = await import("../config/load.node.js");
  const { formatProblems } = await import("../config/problem.js");
  return loadConfigFile(options.config, {
    overrides: [...(options.set ?? []), ...extra],
    // Loaded only where a file names some: what they need is most of the library.
    loadPlugins: async (plugins, folder) => {
      const { loadPlugins } = await import("../train/plugins/load.node.js");
      await loadPlugins(plugins, folder);
    },
    onWarning: (warning) => context.err(`speedtronic: warning: ${formatProblems([warning])}\n`),
  });
}
