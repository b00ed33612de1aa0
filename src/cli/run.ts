// The command line from arguments to exit code. Only the command that is asked for gets loaded, so that
// `--version` and `--help` answer at once.

import { createRequire } from "node:module";
import { Command, CommanderError } from "commander";
import type { CliCommand, CliCommandEntry } from "./command.js";
import { commands } from "./commands/index.js";
import type { CliContext } from "./context.js";
import { ExitCode, exitCodeHelp, exitCodeOf, formatError } from "./exit-codes.js";

function packageVersion(): string {
  const require = createRequire(import.meta.url);
  return (require("../../package.json") as { version: string }).version;
}

const rootHelp = `
Start here:
  speedtronic validate --config configs/smoke.yaml   is the file right, and what does it come to?
  speedtronic doctor --config configs/smoke.yaml     is everything there that the run needs?
  speedtronic train --config configs/smoke.yaml      a run of a few seconds
  speedtronic generate --checkpoint runs/smoke --prompt Hello
                                                     text from the model of a run
  speedtronic train --help                           options and examples of one command

Exit codes:
${exitCodeHelp.map(([code, meaning]) => `  ${code.padEnd(9)} ${meaning}`).join("\n")}

SPEEDTRONIC_TRACE=1 or --trace adds a stack trace to errors.
`;

function buildProgram(context: CliContext): Command {
  const program = new Command("speedtronic");
  program
    .description(
      "Train language models on this machine: one configuration file, one efficient loop, exact resume.",
    )
    .version(packageVersion(), "-V, --version", "print the version")
    .helpOption("-h, --help", "print help")
    .helpCommand("help [command]", "print help for a command")
    .addHelpText("after", rootHelp);
  applyHabits(program, context);
  return program;
}

/** Settings that commander does not inherit to commands added from outside. */
function applyHabits(command: Command, context: CliContext): void {
  command
    .exitOverride()
    // Descriptions of options are wrapped on narrow terminals as well.
    .configureHelp({ minWidthToWrap: 24 })
    .option("--trace", "print a stack trace with an error")
    .configureOutput({
      writeOut: (text) => context.out(text),
      writeErr: (text) => context.err(text),
      outputError: (text, write) => write(`speedtronic: ${text}`),
    });
}

/** The whole command line with every command loaded, for the page of documentation. */
export async function describeProgram(context: CliContext): Promise<Command> {
  const program = buildProgram(context);
  await addCommands(program, commands, () => true, context, {});
  return program;
}

/** Adds every command to the table of `--help`, and loads those of which `isWanted`. */
async function addCommands(
  parent: Command,
  entries: readonly CliCommandEntry[],
  isWanted: (name: string) => boolean,
  context: CliContext,
  slot: RunSlot,
): Promise<void> {
  const path = fullName(parent);
  for (const entry of entries) {
    const command = parent.command(entry.name).summary(entry.summary).description(entry.summary);
    applyHabits(command, context);
    command.showHelpAfterError(`See ${path} ${entry.name} --help.`);
    if (!isWanted(entry.name)) continue;
    const loaded = await entry.load();
    loaded.configure(command);
    if ("commands" in loaded) {
      await addCommands(command, loaded.commands, isWanted, context, slot);
      continue;
    }
    command.action(() => {
      slot.chosen = { loaded, command };
    });
  }
  parent.showHelpAfterError(`See ${path} --help.`);
}

/** `speedtronic ckpt`, for messages. */
function fullName(command: Command): string {
  return command.parent ? `${fullName(command.parent)} ${command.name()}` : command.name();
}

interface RunSlot {
  chosen?: { readonly loaded: CliCommand; readonly command: Command };
}

/**
 * Runs one command and returns its exit code. Errors are printed, never thrown; the process is left alone.
 *
 * @param argv arguments without node and script
 */
export async function runCli(argv: readonly string[], context: CliContext): Promise<number> {
  const trace = argv.includes("--trace") || /^(?:1|true|yes|on)$/i.test(context.env.SPEEDTRONIC_TRACE ?? "");
  try {
    const program = buildProgram(context);
    const slot: RunSlot = {};
    // Whatever the arguments could mean is loaded.
    await addCommands(program, commands, (name) => argv.includes(name), context, slot);
    if (argv.length === 0) {
      program.outputHelp({ error: true });
      return ExitCode.usage;
    }
    await program.parseAsync([...argv], { from: "user" });
    if (slot.chosen === undefined) return ExitCode.ok;
    return await slot.chosen.loaded.run(slot.chosen.command, context, () => describeProgram(context));
  } catch (error) {
    // Commander has printed its own message already.
    if (error instanceof CommanderError) return error.exitCode === 0 ? ExitCode.ok : ExitCode.usage;
    context.err(formatError(error, { trace }));
    return exitCodeOf(error);
  }
}
