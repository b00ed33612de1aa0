// The clock of this machine. Node only.

import type { Clock } from "./clock.js";

/** `keepsAlive`: whether a wait keeps the process from ending. */
export function clockOf({ keepsAlive }: { readonly keepsAlive: boolean }): Clock {
  return {
    now: () => performance.now(),
    sleep: (ms, signal) =>
      new Promise((resolve) => {
        if (signal?.aborted === true) return resolve();
        const done = () => {
          clearTimeout(timer);
          signal?.removeEventListener("abort", done);
          resolve();
        };
        const timer = setTimeout(done, ms);
        if (!keepsAlive) timer.unref();
        signal?.addEventListener("abort", done, { once: true });
      }),
  };
}

/** For a node: training, not waiting, keeps its process alive. */
export const systemClock = clockOf({ keepsAlive: false });
