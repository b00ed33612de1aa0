// Repeating what may succeed later, and telling it from what never will.

import { type BackoffSettings, backoffMs } from "../transports/backoff.js";
import { TransportError } from "../transports/errors.js";
import type { Clock } from "./clock.js";

export interface AttemptOptions {
  readonly attempts: number;
  readonly clock: Clock;
  readonly backoff: BackoffSettings;
  readonly random: () => number;
  readonly signal: AbortSignal;
  /** After each failure that is followed by another try. */
  onFailure(error: unknown, waitMs: number): void;
}

export type AttemptResult<T> =
  | { readonly kind: "done"; readonly value: T }
  | { readonly kind: "failed"; readonly error: unknown; readonly isPermanent: boolean }
  | { readonly kind: "aborted" };

/** Never rejects. */
export async function attempt<T>(work: () => Promise<T>, options: AttemptOptions): Promise<AttemptResult<T>> {
  const { attempts, clock, backoff, random, signal, onFailure } = options;
  for (let failures = 1; ; failures++) {
    if (signal.aborted) return { kind: "aborted" };
    try {
      return { kind: "done", value: await work() };
    } catch (error) {
      if (signal.aborted) return { kind: "aborted" };
      const isPermanent = isPermanentError(error);
      if (isPermanent || failures >= attempts) return { kind: "failed", error, isPermanent };
      const waitMs = backoffMs(failures, backoff, random, retryAfterMs(error));
      onFailure(error, waitMs);
      await clock.sleep(waitMs, signal);
    }
  }
}

/** Whether trying again can only fail again. Whatever is no error of a repository is about content, or a bug. */
export function isPermanentError(error: unknown): boolean {
  return !(error instanceof TransportError) || !(error.isTransient || error.problem === "conflict");
}

export function retryAfterMs(error: unknown): number | undefined {
  return error instanceof TransportError ? error.retryAfterMs : undefined;
}

export function errorText(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
