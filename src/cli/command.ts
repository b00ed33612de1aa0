// The contract of a command, and reading the options that several commands share.

import type { Command } from "commander";
import type { CliContext } from "./context.js";

/** The program with every command loaded, for the few that speak of all of them. */
export type WholeProgram = () => Promise<Command>;

export interface CliCommand {
  /** Adds arguments, options and examples. Must not load anything heavy: it also runs for `--help`. */
  configure(command: Command): void;
  /** Does the work and returns the exit code. Heavy modules are imported in here. */
  run(command: Command, context: CliContext, wholeProgram: WholeProgram): Promise<number>;
}

/** A command that only groups others, as in `speedtronic ckpt inspect`. */
export interface CliGroup {
  configure(command: Command): void;
  readonly commands: readonly CliCommandEntry[];
}

/** A line of the command table: enough for `speedtronic --help` without loading the command. */
export interface CliCommandEntry {
  readonly name: string;
  readonly summary: string;
  load(): Promise<CliCommand | CliGroup>;
}

/** For options that may be given several times. */
export function collect(value: string, earlier: readonly string[] | undefined): readonly string[] {
  return [...(earlier ?? []), value];
}

/**
 * Ends the command with a usage error unless these options were given. Commander's own check runs before its check
 * for unknown options and would answer `--confg x` with "--config is missing" instead of a suggestion.
 */
export function requireOptions(command: Command, names: readonly string[]): void {
  for (const name of names) {
    const option = command.options.find((candidate) => candidate.attributeName() === name);
    if (option !== undefined && command.getOptionValue(name) === undefined) {
      command.error(`error: option '${option.flags}' is missing`);
    }
  }
}
