// How long an aggregator waits for a repository that does not answer, or in which others are always faster.

import { TransportError } from "../transports/errors.js";
import { isPermanentError } from "./attempts.js";

const LONGEST_WAIT_MS = 60_000;

/** Whether the same may succeed later. */
export function isTemporary(error: unknown): error is TransportError {
  return error instanceof TransportError && !isPermanentError(error);
}

/** The wait after `failures` failures in a row: what the other side asks for, or doubled each time. */
export function patienceMs({ retryAfterMs }: TransportError, failures: number, firstMs: number): number {
  return retryAfterMs ?? Math.min(firstMs * 2 ** Math.min(failures, 20), LONGEST_WAIT_MS);
}

/** The payload of `aggregator_waiting`. */
export function waitingPayload({ problem, message }: TransportError, waitMs: number) {
  return { problem, error: message, wait_ms: waitMs };
}
