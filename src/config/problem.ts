// What is wrong with a configuration, as data and as text. Every check makes problems of this form; they are
// collected and thrown together, so that one look at a file is enough to put all of it right.

import { ConfigError } from "../util/errors.js";

/** Where something was written: a place in a file, or an option of the command line. */
export type Location =
  | { readonly kind: "file"; readonly line: number; readonly column: number }
  | { readonly kind: "option"; readonly option: string };

export interface ConfigProblem {
  /** Stable identifier such as `config.unknown_key`. */
  readonly code: string;
  /** Dotted path as it was written, for instance `model.n_head`; empty for the file as a whole. */
  readonly path: string;
  /** What is wrong and what to do, without the path. */
  readonly message: string;
  /** What was probably meant: a key path or a value. */
  readonly suggestion?: string;
  readonly file?: string;
  readonly location?: Location;
}

const MAX_SHOWN = 60;

function shorten(shown: string): string {
  return shown.length <= MAX_SHOWN ? shown : `${shown.slice(0, MAX_SHOWN - 1)}…`;
}

/** A value as a message names it: its type where that is the point, and the value cut to a readable length. */
export function describeValue(value: unknown): string {
  if (value === undefined) return "nothing";
  if (value === null) return "null";
  if (typeof value === "string")
    return value === "" ? "empty text" : `the text ${shorten(JSON.stringify(value))}`;
  if (typeof value === "number" || typeof value === "bigint") return `${value}`;
  if (typeof value === "boolean") return `${value}`;
  if (Array.isArray(value)) return `the list ${shorten(JSON.stringify(value))}`;
  if (typeof value === "object") return "a mapping";
  return `a ${typeof value}`;
}

function formatProblem(problem: ConfigProblem): string {
  const { location, file } = problem;
  let where = file ?? "";
  if (location?.kind === "file") where = `${file ?? "text"}:${location.line}:${location.column}`;
  if (location?.kind === "option") where = location.option;
  // `--set model.n_head` names the path already.
  const path = location?.kind === "option" && where.endsWith(` ${problem.path}`) ? "" : problem.path;
  return [where, path, problem.message].filter((part) => part !== "").join(": ");
}

/** Problems of options come last, those of a file in the order of its lines, those without a place first. */
function byPlace(a: ConfigProblem, b: ConfigProblem): number {
  const key = ({ location }: ConfigProblem): [number, number, number] => {
    if (location === undefined) return [0, 0, 0];
    return location.kind === "file" ? [1, location.line, location.column] : [2, 0, 0];
  };
  const [x, y] = [key(a), key(b)];
  return x[0] - y[0] || x[1] - y[1] || x[2] - y[2];
}

export function formatProblems(problems: readonly ConfigProblem[]): string {
  const lines = problems.map(formatProblem);
  if (lines.length === 1) return lines[0] as string;
  return `${lines.length} problems in the configuration\n${lines.map((line) => `  ${line}`).join("\n")}`;
}

/** One error for all problems; `details.problems` holds them as data. */
export function configError(problems: readonly ConfigProblem[]): ConfigError {
  const ordered = [...problems].sort(byPlace);
  const codes = new Set(ordered.map((problem) => problem.code));
  const [only] = codes;
  return new ConfigError(formatProblems(ordered), {
    code: codes.size === 1 && only !== undefined ? only : "config.invalid",
    details: { problems: ordered },
  });
}
