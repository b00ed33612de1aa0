// `speedtronic validate`: is this file right, and what does it come to? Needs no tensor engine, opens no data.

import { type Command, Option } from "commander";
import type { SpeedtronicConfig } from "../../config/schema.js";
import type { CliCommand } from "../command.js";
import { addConfigOptions, type ConfigOptions, readConfig } from "../config-options.js";
import { ExitCode } from "../exit-codes.js";

interface ValidateOptions extends ConfigOptions {
  readonly format: "yaml" | "json";
}

export const validate: CliCommand = {
  configure(command: Command): void {
    addConfigOptions(command);
    command
      .addOption(
        new Option("-f, --format <format>", "how to print").choices(["yaml", "json"]).default("yaml"),
      )
      .description(
        "Check a configuration file and print it in full: every key, defaults and derived values filled in, the token left out. " +
          "All problems are reported at once. What this build cannot train is named on stderr.",
      )
      .addHelpText(
        "after",
        `
Examples:
  speedtronic validate --config configs/smoke.yaml
  speedtronic validate --config configs/smoke.yaml --set optimizer.lr=1e-3 --format json
`,
      );
  },

  async run(command, context): Promise<number> {
    const options = command.opts<ValidateOptions>();
    const config = await readConfig(command, context);
    const { formatConfig } = await import("../../config/serialize.js");
    const { collectUnsupported, formatUnsupported } = await import("../../config/unsupported.js");
    await checkOwnSettings(config);
    context.out(formatConfig(config, options.format));
    const { refusals, notices } = collectUnsupported(config);
    for (const refusal of refusals) {
      context.err(`speedtronic: warning: train would refuse this: ${formatUnsupported(refusal)}\n`);
    }
    for (const notice of notices) context.err(`speedtronic: note: ${formatUnsupported(notice)}\n`);
    return ExitCode.ok;
  },
};

/** What only the model itself can judge: whether it exists among those of plugins, and its own settings. */
async function checkOwnSettings({ model, plugins }: SpeedtronicConfig): Promise<void> {
  if (plugins.length === 0 && Object.keys(model.extra).length === 0) return;
  const { checkModelExtra } = await import("../../nn/models/registry.js");
  checkModelExtra(model.name, model.extra);
}
