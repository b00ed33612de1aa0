// Time as a node sees it, and waiting for work that may take too long.

import type { Clock } from "../transports/clock.js";

export type { Clock };

/** What `work` gives, or undefined once `ms` have passed or `signal` is aborted. `work` goes on then. */
export async function within<T>(
  work: Promise<T>,
  ms: number,
  clock: Clock,
  signal?: AbortSignal,
): Promise<T | undefined> {
  const timer = new AbortController();
  const ending = signal === undefined ? timer.signal : AbortSignal.any([timer.signal, signal]);
  try {
    return await Promise.race([work, clock.sleep(ms, ending).then(() => undefined)]);
  } finally {
    timer.abort();
  }
}
