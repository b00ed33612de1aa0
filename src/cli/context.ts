// What a command may use of the outside world. Tests give their own; the executable gives the process's.

import type { OutputStream } from "../observe/terminal.node.js";
import { ExitCode } from "./exit-codes.js";

export interface CliContext {
  /** Results. */
  out(text: string): void;
  /** Messages for people: errors, warnings, progress. */
  err(text: string): void;
  /** Where progress is displayed: stdout as a stream, which knows whether and how it can redraw. */
  readonly stream: OutputStream;
  /** stderr as a stream, for progress of commands whose stdout is their result. */
  readonly errStream?: OutputStream;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Whether stdout is a terminal. */
  readonly isTerminal: boolean;
  /**
   * Called once when the reader of stdout has gone away (`speedtronic … | head`). The default ends the process
   * with code 0, as there is nobody left to tell; a command with state to save replaces it.
   */
  onOutputClosed: () => void;
  /**
   * Called once when stdout can no longer be written, as on a full disk. The default says so and ends the process
   * with code 1; a command with work to protect replaces it and goes on.
   */
  onOutputFailed: (error: Error) => void;
}

export function processContext(): CliContext {
  let closed = false;
  const context: CliContext = {
    out: (text) => {
      if (!closed) process.stdout.write(text);
    },
    err: (text) => {
      process.stderr.write(text);
    },
    stream: process.stdout,
    errStream: process.stderr,
    env: process.env,
    isTerminal: process.stdout.isTTY === true,
    onOutputClosed: () => process.exit(0),
    onOutputFailed: (error) => {
      context.err(`speedtronic: error: cannot write to standard output: ${error.message}\n`);
      process.exit(ExitCode.failure);
    },
  };
  const onError = (error: NodeJS.ErrnoException): void => {
    if (closed) return;
    closed = true;
    if (error.code === "EPIPE") context.onOutputClosed();
    else context.onOutputFailed(error);
  };
  process.stdout.on("error", onError);
  // Without a reader of messages the work itself is still wanted.
  process.stderr.on("error", () => undefined);
  return context;
}
