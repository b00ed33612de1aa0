// The exit codes of every command, by cause. Scripts depend on them; `speedtronic --help` prints the table.

import { SpeedtronicError } from "../util/errors.js";

export const ExitCode = {
  ok: 0,
  /** A check ran and found something, or the operating system refused an operation. */
  failure: 1,
  /** Flags or configuration. */
  usage: 2,
  /** Data or model. */
  data: 3,
  checkpoint: 4,
  training: 5,
  /** Other machines: hub, protocol. */
  distributed: 6,
  /** A bug of ours. */
  internal: 70,
  interrupted: 130,
  terminated: 143,
} as const;

export const exitCodeHelp: readonly (readonly [string, string])[] = [
  ["0", "done"],
  ["1", "a check found something, or the system refused an operation"],
  ["2", "wrong flags or configuration"],
  ["3", "data that cannot be read, or a model that cannot be built"],
  ["4", "no usable checkpoint, or checkpoints cannot be written"],
  ["5", "training failed, for instance with a loss that is not finite"],
  ["6", "other machines or the repository they meet in"],
  ["70", "a bug in speedtronic"],
  ["130, 143", "stopped by Ctrl-C or SIGTERM, state saved"],
];

/** Errors of system calls, such as a full disk, carry the call and a code; they are nobody's bug. */
function isSystemError(error: unknown): boolean {
  return error instanceof Error && "syscall" in error && "code" in error;
}

export function exitCodeOf(error: unknown): number {
  if (error instanceof SpeedtronicError) return error.exitCode;
  return isSystemError(error) ? ExitCode.failure : ExitCode.internal;
}

/** Of a run that was asked to stop, by what asked: a signal, or a reader of the output who went away. */
export function exitCodeOfStop(cause: unknown): number {
  if (cause === "SIGINT" || cause === "SIGBREAK") return ExitCode.interrupted;
  if (cause === "SIGTERM") return ExitCode.terminated;
  // A run that ended early because its reader went away is not done, and scripts must see that.
  return cause === "output closed" ? ExitCode.failure : ExitCode.ok;
}

/** One message, without a stack trace unless asked for. */
export function formatError(error: unknown, options: { readonly trace: boolean }): string {
  const message = error instanceof Error ? error.message : String(error);
  const code = exitCodeOf(error);
  const isBug = code === ExitCode.internal;
  const lines = [`speedtronic: error: ${isBug ? "internal error: " : ""}${message}`];
  if (options.trace && error instanceof Error) lines.push(traceOf(error));
  else if (isBug) lines.push("This is a bug in speedtronic; please report it with the output of --trace.");
  return `${lines.join("\n")}\n`;
}

function traceOf(error: Error): string {
  const own = error.stack?.split("\n").filter((line) => /^\s+at /.test(line)) ?? [];
  const cause =
    error.cause instanceof Error ? [`caused by: ${error.cause.message}`, traceOf(error.cause)] : [];
  return [...own, ...cause].join("\n");
}
