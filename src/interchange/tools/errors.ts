// The error of the tools for model files: what was asked for cannot be done with these files.

import { type ErrorOptions, SpeedtronicError } from "../../util/errors.js";

/** Files that do not fit what is asked of them. Codes start with `tools.`. */
export class ToolError extends SpeedtronicError {
  readonly exitCode = 4;
}

export function toolError(
  code: string,
  message: string,
  details: Readonly<Record<string, unknown>> = {},
  cause?: unknown,
): ToolError {
  const options: ErrorOptions = { code: `tools.${code}`, details };
  return new ToolError(message, cause === undefined ? options : { ...options, cause });
}
