// Signals that ask a process to stop. Windows knows Ctrl-C and Ctrl-Break only; SIGTERM never arrives there.

const exitCodes = { SIGINT: 130, SIGTERM: 143, SIGBREAK: 130 } as const;
export type StopSignal = keyof typeof exitCodes;

/**
 * Calls `onStop` for the first signal and ends the process at the second, with the exit code of that signal.
 * `close` gives the signals back to their defaults.
 */
export function onStopSignals(onStop: (signal: StopSignal) => void): { close(): void } {
  const signals: StopSignal[] = process.platform === "win32" ? ["SIGINT", "SIGBREAK"] : ["SIGINT", "SIGTERM"];
  let isStopping = false;
  const handle = (signal: NodeJS.Signals) => {
    if (isStopping) process.exit(exitCodes[signal as StopSignal]);
    isStopping = true;
    onStop(signal as StopSignal);
  };
  for (const signal of signals) process.on(signal, handle);
  return {
    close() {
      for (const signal of signals) process.off(signal, handle);
    },
  };
}
