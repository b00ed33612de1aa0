// The one error of renaming and of load policies. Apart from the checkpoint's other errors since this folder is
// pure: it knows names and shapes, neither files nor models.

import { CheckpointError, ConfigError, type SpeedtronicError } from "../../util/errors.js";

export type NameProblem =
  /** Two names would become the same one. */
  | "collision"
  /** One name could be several of the expected ones. */
  | "ambiguous"
  /** A rule that renames nothing: probably misspelt. */
  | "unused_rule"
  /** A rule that cannot be read. */
  | "invalid_rule"
  /** Names, shapes or dtypes do not fit, and no policy allows it. */
  | "does_not_fit";

/** `code` is `checkpoint.` and the problem. A rule that cannot be read is a ConfigError, all else a CheckpointError. */
export function nameError(
  problem: NameProblem,
  message: string,
  details: Readonly<Record<string, unknown>>,
): SpeedtronicError {
  const ErrorClass = problem === "invalid_rule" ? ConfigError : CheckpointError;
  return new ErrorClass(message, { code: `checkpoint.${problem}`, details });
}

/** At most ten lines of a list: a wholly different model would fill the screen. */
export function listed(title: string, lines: readonly string[]): string[] {
  if (lines.length === 0) return [];
  const more = lines.length > 10 ? [`  … and ${lines.length - 10} more`] : [];
  return [`${title} (${lines.length}):`, ...lines.slice(0, 10).map((line) => `  ${line}`), ...more];
}
