// Time as a node sees it: injected, so that a simulated node lives in simulated time.

export interface Clock {
  /** Milliseconds; only differences count. */
  now(): number;
  /** Resolves after `ms`, or at once when the signal is aborted. Never rejects. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}
