// What a command may use of the outside world. Tests give their own; the executable gives the process's.

import type { OutputStream } from "../observe/terminal.node.js";

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
  };
  const onError = (error: NodeJS.ErrnoException): void => {
    if (error.code !== "EPIPE") throw error;
    if (closed) return;
    closed = true;
    context.onOutputClosed();
  };
  process.stdout.on("error", onError);
  // Without a reader of messages the work itself is still wanted.
  process.stderr.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE") throw error;
  });
  return context;
}
