// The one error of repositories. What a caller does next depends on its kind alone.

import { SpeedtronicError } from "../../util/errors.js";

export type TransportProblem =
  /** The head is not the parent any more: read again, decide again. */
  | "conflict"
  /** The commit may or may not have been made: read the head and look for it. */
  | "ambiguous"
  /** Nobody answers, or the service is overloaded: try again later. */
  | "unavailable"
  /** Too many requests or commits; `retryAfterMs` says when to come back. */
  | "throttled"
  /** Repository, revision or file does not exist. */
  | "not_found"
  /** No or a wrong token, or one without the right. */
  | "denied"
  /** The request will never succeed as it is: bad path, too large, refused content. */
  | "invalid"
  /** What arrived is not what was asked for: wrong size or hash, no JSON. */
  | "corrupt";

const TRANSIENT: ReadonlySet<TransportProblem> = new Set([
  "ambiguous",
  "unavailable",
  "throttled",
  "corrupt",
]);

export interface TransportErrorFields {
  readonly retryAfterMs?: number | undefined;
  readonly path?: string | undefined;
  readonly cause?: unknown;
}

export class TransportError extends SpeedtronicError {
  readonly exitCode = 6;
  readonly problem: TransportProblem;
  readonly retryAfterMs: number | undefined;

  constructor(
    problem: TransportProblem,
    message: string,
    { retryAfterMs, path, cause }: TransportErrorFields = {},
  ) {
    super(message, {
      code: `transport.${problem}`,
      details: path === undefined ? {} : { path },
      cause,
    });
    this.problem = problem;
    this.retryAfterMs = retryAfterMs;
  }

  /** Whether the same request may succeed later. A conflict is neither: it needs another request. */
  get isTransient(): boolean {
    return TRANSIENT.has(this.problem);
  }
}
