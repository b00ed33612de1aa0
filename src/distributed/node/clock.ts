// Time as a node sees it: injected, so that a simulated node lives in simulated time. And how long to wait after
// failures.

export interface Clock {
  /** Milliseconds; only differences count. */
  now(): number;
  /** Resolves after `ms`, or at once when the signal is aborted. Never rejects. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

export interface BackoffSettings {
  readonly initialMs: number;
  readonly maxMs: number;
}

/**
 * The wait before the next try after `failures` failures in a row: doubled each time up to the maximum, between half
 * and all of it at random (so that many nodes do not come back together), and never less than what the other side asks.
 */
export function backoffMs(
  failures: number,
  { initialMs, maxMs }: BackoffSettings,
  random: () => number,
  askedMs = 0,
): number {
  const full = Math.min(maxMs, initialMs * 2 ** Math.min(failures - 1, 30));
  return Math.max(askedMs, full * (0.5 + random() / 2));
}

/** What `work` gives, or undefined once `ms` have passed. `work` goes on then. */
export async function within<T>(work: Promise<T>, ms: number, clock: Clock): Promise<T | undefined> {
  const timer = new AbortController();
  try {
    return await Promise.race([work, clock.sleep(ms, timer.signal).then(() => undefined)]);
  } finally {
    timer.abort();
  }
}
