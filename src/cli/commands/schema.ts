// `speedtronic schema`: the configuration's schema for editors, or what one key means. Needs no tensor engine.

import type { Command } from "commander";
import type { CliCommand } from "../command.js";
import { ExitCode } from "../exit-codes.js";

interface SchemaOptions {
  readonly json?: boolean;
}

export const schema: CliCommand = {
  configure(command: Command): void {
    command
      .usage("[key] [options]")
      .argument("[key]", "a key or a section, such as optimizer.lr: say what it means instead")
      .option("--json", "with a key, print what is known of it as JSON")
      .description(
        "Print the JSON Schema (draft 7) of a configuration file, with which editors complete keys, show what they " +
          "mean and mark mistakes while you write. Rules between keys are checked by speedtronic validate.",
      )
      .addHelpText(
        "after",
        `
Examples:
  speedtronic schema > speedtronic.schema.json
  speedtronic schema optimizer.lr
  speedtronic schema scheduler

The first line of a configuration file tells an editor which schema it has:
  # yaml-language-server: $schema=./speedtronic.schema.json
`,
      );
  },

  async run(command, context): Promise<number> {
    const [path] = command.args;
    const { json } = command.opts<SchemaOptions>();
    if (path === undefined) {
      const { configJsonSchema } = await import("../../config/json-schema.js");
      context.out(`${JSON.stringify(configJsonSchema(), null, 2)}\n`);
      return ExitCode.ok;
    }
    const { formatKeys, requireKeys } = await import("../../config/key-help.js");
    const keys = requireKeys(path);
    context.out(json === true ? `${JSON.stringify(keys, null, 2)}\n` : formatKeys(keys));
    return ExitCode.ok;
  },
};
