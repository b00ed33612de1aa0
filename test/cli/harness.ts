// Runs the command line inside the test's process, with the output collected.

import type { CliContext } from "../../src/cli/context.js";
import { runCli } from "../../src/cli/run.js";

export interface CliResult {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

export async function cli(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<CliResult> {
  const output = { out: "", err: "" };
  const context: CliContext = {
    out: (text) => {
      output.out += text;
    },
    err: (text) => {
      output.err += text;
    },
    env,
    isTerminal: false,
    onOutputClosed: () => {},
  };
  const code = await runCli(args, context);
  return { code, ...output };
}
