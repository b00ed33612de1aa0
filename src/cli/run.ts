// The command line from arguments to exit code. Only the command that is asked for gets loaded, so that
// `--version` and `--help` answer at once.

import { createRequire } from "node:module";
import { Command, CommanderError } from "commander";
import type { CliCommand } from "./command.js";
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
  speedtronic train --config configs/smoke.yaml      a run of a few seconds
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
    .option("--trace", "print a stack trace with an error")
    .configureOutput({
      writeOut: (text) => context.out(text),
      writeErr: (text) => context.err(text),
      outputError: (text, write) => write(`speedtronic: ${text}`),
    });
}

/** Adds every command to the table of `--help`, and loads the ones that the arguments could mean. */
async function addCommands(program: Command, argv: readonly string[], context: CliContext): Promise<RunSlot> {
  const slot: RunSlot = {};
  for (const entry of commands) {
    const command = program.command(entry.name).summary(entry.summary).description(entry.summary);
    applyHabits(command, context);
    command.showHelpAfterError(`See speedtronic ${entry.name} --help.`);
    if (!argv.includes(entry.name)) continue;
    const loaded = await entry.load();
    loaded.configure(command);
    command.action(() => {
      slot.chosen = { loaded, command };
    });
  }
  program.showHelpAfterError("See speedtronic --help.");
  return slot;
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
    const slot = await addCommands(program, argv, context);
    if (argv.length === 0) {
      program.outputHelp({ error: true });
      return ExitCode.usage;
    }
    await program.parseAsync([...argv], { from: "user" });
    if (slot.chosen === undefined) return ExitCode.ok;
    return await slot.chosen.loaded.run(slot.chosen.command, context);
  } catch (error) {
    // Commander has printed its own message already.
    if (error instanceof CommanderError) return error.exitCode === 0 ? ExitCode.ok : ExitCode.usage;
    context.err(formatError(error, { trace }));
    return exitCodeOf(error);
  }
}
