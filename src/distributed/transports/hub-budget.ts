// Commits of the last hour, counted so that the hub's limit is not run into: who does is locked out for up to an hour.

import { TransportError } from "./errors.js";

export interface CommitBudgetOptions {
  /** Commits in any hour (default 100; the official hub refuses at about 128). */
  readonly perHour?: number | undefined;
  /** Milliseconds; only differences count. */
  readonly now?: (() => number) | undefined;
}

export const DEFAULT_COMMITS_PER_HOUR = 100;
const HOUR_MS = 3_600_000;

export class CommitBudget {
  readonly perHour: number;
  readonly #now: () => number;
  /** When each commit began, oldest first. */
  #times: number[] = [];

  constructor({ perHour = DEFAULT_COMMITS_PER_HOUR, now = Date.now }: CommitBudgetOptions = {}) {
    this.perHour = perHour;
    this.#now = now;
  }

  /** Commits that may still be made now. */
  get left(): number {
    this.#forget();
    return Math.max(0, this.perHour - this.#times.length);
  }

  /** Counts one commit and returns how to take it back if it was not made. Throws TransportError `throttled`. */
  take(title: string): () => void {
    this.#forget();
    const time = this.#now();
    if (this.#times.length >= this.perHour) {
      const oldest = this.#times[this.#times.length - this.perHour] ?? time;
      throw new TransportError(
        "throttled",
        `${title}: this process made ${this.#times.length} commits within an hour and may make ${this.perHour}; ` +
          "raise inner_steps or the budget if the hub allows more",
        { retryAfterMs: Math.max(1, oldest + HOUR_MS - time) },
      );
    }
    this.#times.push(time);
    let isCounted = true;
    return () => {
      const at = isCounted ? this.#times.indexOf(time) : -1;
      isCounted = false;
      if (at >= 0) this.#times.splice(at, 1);
    };
  }

  #forget(): void {
    const since = this.#now() - HOUR_MS;
    this.#times = this.#times.filter((time) => time > since);
  }
}
