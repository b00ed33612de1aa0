// How long an aggregator waits for a repository that does not answer, or in which others are always faster.

import { backoffMs } from "../transports/backoff.js";
import { TransportError } from "../transports/errors.js";
import { AggregatorError } from "./aggregator-errors.js";
import { isPermanentError } from "./attempts.js";

const LONGEST_WAIT_MS = 60_000;
/** Paths in a message. */
const MOST_NAMED = 3;

/** Whether the same may succeed later. */
export function isTemporary(error: unknown): error is TransportError {
  return error instanceof TransportError && !isPermanentError(error);
}

/** The wait after `failures` failures in a row, the first of them longer than the usual time between two looks. */
export function patienceMs(
  { retryAfterMs }: TransportError,
  failures: number,
  everyMs: number,
  random: () => number = Math.random,
): number {
  const settings = { initialMs: 2 * everyMs, maxMs: Math.max(everyMs, LONGEST_WAIT_MS) };
  return backoffMs(failures, settings, random, retryAfterMs);
}

/** The payload of `aggregator_waiting`. */
export function waitingPayload({ problem, message }: TransportError, waitMs: number) {
  return { problem, error: message, wait_ms: waitMs };
}

/** How long the last round may take without getting any further, and what it waits for meanwhile. */
export class DrainPatience {
  readonly #limitMs: number;
  #sinceMs: number;
  #told: string | undefined;

  constructor(limitMs: number, nowMs: number) {
    this.#limitMs = limitMs;
    this.#sinceMs = nowMs;
  }

  /** Something was published. */
  renew(nowMs: number): void {
    this.#sinceMs = nowMs;
  }

  leftMs(nowMs: number): number {
    return Math.max(0, this.#limitMs - (nowMs - this.#sinceMs));
  }

  /** @throws `error` with what was given up, once the time is over. */
  check(error: TransportError, nowMs: number): void {
    const { problem, message, retryAfterMs } = error;
    if (nowMs - this.#sinceMs < this.#limitMs) return;
    const text = `${message}; the last round was given up after ${this.#seconds(nowMs)} s without progress: what the nodes sent stays in the repository, and the next aggregator counts it`;
    throw new TransportError(problem, text, { retryAfterMs, cause: error });
  }

  /** What to tell about deltas that cannot be read; undefined if it was told. @throws AggregatorError `undrained`. */
  waiting(
    paths: readonly string[],
    nowMs: number,
    title: string,
  ): { readonly problem: string; readonly error: string } | undefined {
    if (paths.length === 0) return undefined;
    const count = paths.length === 1 ? "1 delta" : `${paths.length} deltas`;
    const names = `${paths.slice(0, MOST_NAMED).join(", ")}${paths.length > MOST_NAMED ? ", …" : ""}`;
    if (nowMs - this.#sinceMs >= this.#limitMs) {
      throw new AggregatorError(
        "undrained",
        `${title}: ${count} could not be read within ${this.#seconds(nowMs)} s (${names}); everything else is published, and the next aggregator counts what can be read then`,
        { details: { paths } },
      );
    }
    if (this.#told === names) return undefined;
    this.#told = names;
    const most = Math.ceil(this.leftMs(nowMs) / 1000);
    return { problem: "unreadable", error: `${count} cannot be read (${names}); waiting at most ${most} s` };
  }

  #seconds(nowMs: number): number {
    return Math.round((nowMs - this.#sinceMs) / 1000);
  }
}
