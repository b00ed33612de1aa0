// Signals that ask a process to stop. Windows knows Ctrl-C and Ctrl-Break only; SIGTERM never arrives there.

const exitCodes = { SIGINT: 130, SIGTERM: 143, SIGBREAK: 130 } as const;
export type StopSignal = keyof typeof exitCodes;

/**
 * npm and npx pass a Ctrl-C on that the terminal has given to this process already. Nobody presses a key twice
 * within this time.
 */
const sameKeyPressMs = 100;

/**
 * Calls `onStop` for the first signal and ends the process at the second, at once; a shell then sees the exit
 * code of that signal. `close` gives the signals back to their defaults.
 */
export function onStopSignals(onStop: (signal: StopSignal) => void): { close(): void } {
  const signals: StopSignal[] = process.platform === "win32" ? ["SIGINT", "SIGBREAK"] : ["SIGINT", "SIGTERM"];
  let stoppedAtMs: number | undefined;
  const handle = (signal: NodeJS.Signals) => {
    const nowMs = performance.now();
    if (stoppedAtMs === undefined) {
      stoppedAtMs = nowMs;
      onStop(signal as StopSignal);
    } else if (nowMs - stoppedAtMs > sameKeyPressMs) {
      endAtOnce(signal as StopSignal);
    }
  };
  for (const signal of signals) process.on(signal, handle);
  return {
    close() {
      for (const signal of signals) process.off(signal, handle);
    },
  };
}

/**
 * By the signal itself: `process.exit` stops worker threads first, and one that is inside native code then takes
 * the process down with an abort.
 */
function endAtOnce(signal: StopSignal): void {
  if (process.platform === "win32") process.exit(exitCodes[signal]);
  // Listeners put the terminal in order.
  process.emit("exit", exitCodes[signal]);
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
}
