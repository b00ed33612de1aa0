// Time as a node sees it, and waiting for work that may take too long.

import type { Clock } from "../transports/clock.js";

export type { Clock };

/** What `work` gives, or undefined once `ms` have passed. `work` goes on then. */
export async function within<T>(work: Promise<T>, ms: number, clock: Clock): Promise<T | undefined> {
  const timer = new AbortController();
  try {
    return await Promise.race([work, clock.sleep(ms, timer.signal).then(() => undefined)]);
  } finally {
    timer.abort();
  }
}
