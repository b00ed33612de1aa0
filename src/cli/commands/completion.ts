// `speedtronic completion`: a script with which a shell completes commands, options, their values and the keys of a
// configuration. Made from the commands themselves.

import { Argument, type Command } from "commander";
import type { CliCommand } from "../command.js";
import { type Shell, shells } from "../completion/scripts.js";
import { ExitCode } from "../exit-codes.js";

export const completion: CliCommand = {
  configure(command: Command): void {
    command
      .usage("<shell>")
      .addArgument(new Argument("<shell>", "bash, zsh or fish").choices(shells))
      .description(
        "Print a script that completes commands, options, their values, and keys after --set. It is read once, when a " +
          "shell starts, and asks nobody afterwards; print it again after an update.",
      )
      .addHelpText(
        "after",
        `
Examples:
  eval "$(speedtronic completion bash)"        in ~/.bashrc
  eval "$(speedtronic completion zsh)"         in ~/.zshrc, after compinit
  speedtronic completion fish | source         in ~/.config/fish/config.fish
`,
      );
  },

  async run(command, context, wholeProgram): Promise<number> {
    const { outlineOf } = await import("../completion/outline.js");
    const { completionScripts } = await import("../completion/scripts.js");
    const shell = command.args[0] as Shell;
    context.out(completionScripts[shell](outlineOf(await wholeProgram())));
    return ExitCode.ok;
  },
};
