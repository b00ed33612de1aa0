// The command line as plain data, for scripts that complete it: taken from the commands themselves, so that it cannot
// fall behind them.

import type { Argument, Command, Option } from "commander";
import { allKeys, type KeyHelp } from "../../config/key-help.js";

/** What a value can be. */
export type ValueKind =
  | { readonly kind: "words"; readonly words: readonly string[] }
  /** A file or folder. */
  | { readonly kind: "path" }
  /** `key.path=`, of a configuration. */
  | { readonly kind: "key" }
  | { readonly kind: "other" };

export interface OutlinedOption {
  /** `--config`, and `-c` if there is one. */
  readonly names: readonly string[];
  readonly description: string;
  /** Absent: the option takes none. */
  readonly value?: ValueKind;
}

export interface OutlinedCommand {
  /** `""` of the program itself, else `/ckpt/inspect`. */
  readonly path: string;
  readonly children: readonly { readonly name: string; readonly summary: string }[];
  readonly options: readonly OutlinedOption[];
  /** Of its first argument; absent where it takes none. */
  readonly argument?: ValueKind;
}

export interface Outline {
  readonly commands: readonly OutlinedCommand[];
  /** `optimizer.lr` and the like. */
  readonly keys: readonly string[];
}

export function outlineOf(program: Command): Outline {
  return {
    commands: [...outlined(program, "")],
    keys: allKeys().map(({ path }: KeyHelp) => path),
  };
}

function* outlined(command: Command, path: string): Generator<OutlinedCommand> {
  const visible = command.createHelp();
  const children = visible
    .visibleCommands(command)
    .map((child) => ({ name: child.name(), summary: oneLine(child.summary() || child.description()) }));
  const [argument] = command.registeredArguments;
  yield {
    path,
    children,
    options: visible.visibleOptions(command).map(outlinedOption),
    ...(argument && children.length === 0 && { argument: valueKind(argument.name(), argument.argChoices) }),
  };
  for (const child of command.commands) yield* outlined(child, `${path}/${child.name()}`);
}

function outlinedOption(option: Option): OutlinedOption {
  const names = [option.long, option.short].filter((name) => typeof name === "string");
  const name = /[<[]([^>\]]+)/.exec(option.flags)?.[1];
  return {
    names,
    description: oneLine(option.description),
    ...(name !== undefined && { value: valueKind(name, option.argChoices) }),
  };
}

/** By what the placeholder is called: `<file>`, `<folder>`, `[auto|path]`. */
function valueKind(name: string, choices: Argument["argChoices"]): ValueKind {
  if (choices !== undefined) return { kind: "words", words: choices };
  if (name === "key.path=value" || name === "key") return { kind: "key" };
  return /path|file|folder|model|adapters|checkpoint|module/.test(name)
    ? { kind: "path" }
    : { kind: "other" };
}

/** The first sentence, short enough for a line of a menu. */
function oneLine(text: string): string {
  const [sentence = ""] = text.replace(/\s+/g, " ").split(/(?<=\.) |; /);
  return sentence.length <= 72 ? sentence : `${sentence.slice(0, 71)}…`;
}
