// What an answer of a hub means for the caller: the kind of problem, when to come back, and what to do about it.

import { TransportError, type TransportProblem } from "./errors.js";
import { readText, withoutSecrets } from "./hub-text.js";

export interface RequestFacts {
  /** For messages: `reading global/step_count.json of org/name at https://…`. */
  readonly doing: string;
  /** Whether it may change the repository: then no answer does not mean that nothing happened. */
  readonly isCommit?: boolean | undefined;
  readonly path?: string | undefined;
  /** Whether a store answered that the hub sent us to: what it refuses is an address that ran out, not the token. */
  readonly isForeign?: boolean | undefined;
}

const ADVICE: Partial<Record<TransportProblem, string>> = {
  denied: "check the token: it must be set for this hub and allow this (write access for commits)",
  not_found: "check repo_id and endpoint; a private repository looks missing without a token",
  conflict: "someone else committed first: read the new head",
};

const MAX_TEXT = 200;
const MAX_ERROR_BYTES = 1 << 16;

/** Reads the rest of the answer for its message. `now` is in milliseconds. */
export async function errorFromResponse(
  response: Response,
  facts: RequestFacts,
  now: number,
): Promise<TransportError> {
  const { status, headers } = response;
  const problem = problemOf(status, facts);
  const text = await serverText(response);
  const advice = ADVICE[problem];
  const requestId = headers.get("x-request-id");
  const message =
    `${facts.doing}: the hub answered ${status}${text === "" ? "" : `, ${text}`}` +
    `${advice === undefined ? "" : `; ${advice}`}${requestId === null ? "" : ` (request ${requestId.slice(0, 80)})`}`;
  return new TransportError(problem, message, {
    retryAfterMs:
      problem === "throttled" || problem === "unavailable" ? retryAfterMs(headers, now) : undefined,
    path: facts.path,
  });
}

function problemOf(status: number, { isCommit, isForeign }: RequestFacts): TransportProblem {
  if (status === 401 || status === 403) return isForeign === true ? "unavailable" : "denied";
  if (status === 404 || status === 410) return "not_found";
  if (status === 409 || status === 412) return "conflict";
  if (status === 416) return "corrupt";
  if (status === 429) return "throttled";
  // The hub may have committed before it failed, or before something between us and it gave up.
  if (status >= 500 || status === 408) return isCommit ? "ambiguous" : "unavailable";
  return "invalid";
}

/** From `Retry-After` (seconds or a date), else from `RateLimit` if nothing remains (`"api";r=0;t=189`). */
export function retryAfterMs(headers: Headers, now: number): number | undefined {
  const after = headers.get("retry-after")?.trim();
  if (after !== undefined && /^[0-9]{1,9}$/.test(after)) return Number(after) * 1000;
  const date = after === undefined ? Number.NaN : Date.parse(after);
  // The server's clock against itself, where it tells the time.
  const serverNow = Date.parse(headers.get("date") ?? "");
  if (!Number.isNaN(date)) return Math.max(0, date - (Number.isNaN(serverNow) ? now : serverNow));
  const seconds = (headers.get("ratelimit") ?? "")
    .split(",")
    .filter((limit) => /;\s*r=0(?:\s*;|\s*$)/.test(limit))
    .map((limit) => /;\s*t=([0-9]{1,9})/.exec(limit)?.[1])
    .filter((text) => text !== undefined);
  return seconds.length === 0 ? undefined : Math.max(...seconds.map(Number)) * 1000;
}

/** No address that can be connected to means that nothing was received. */
const NEVER_SENT = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH"]);

/** An error thrown by `fetch` or while a body was read. */
export function errorFromNetwork(error: unknown, facts: RequestFacts): TransportError {
  for (let at = error, depth = 0; at instanceof Error && depth < 5; at = at.cause, depth++) {
    if (at instanceof TransportError) return at;
  }
  const codes = causeCodes(error);
  const isLost = facts.isCommit === true && !codes.some((code) => NEVER_SENT.has(code));
  const said = error instanceof Error ? withoutSecrets(error.message).slice(0, MAX_TEXT) : "unknown failure";
  const reason = codes[0] ?? said;
  const message = isLost
    ? `${facts.doing}: the connection broke (${reason}); the commit may have been made all the same`
    : `${facts.doing}: no connection (${reason})`;
  return new TransportError(isLost ? "ambiguous" : "unavailable", message, {
    path: facts.path,
    cause: error,
  });
}

function causeCodes(error: unknown): string[] {
  const codes: string[] = [];
  for (let at = error, depth = 0; at instanceof Error && depth < 5; at = at.cause, depth++) {
    const { code } = at as { code?: unknown };
    if (typeof code === "string") codes.push(code);
  }
  return codes;
}

async function serverText(response: Response): Promise<string> {
  try {
    const isJson = response.headers.get("content-type")?.startsWith("application/json") === true;
    const text = isJson ? await readText(response, MAX_ERROR_BYTES) : undefined;
    if (!isJson) await response.body?.cancel();
    const body: unknown = text === undefined ? {} : JSON.parse(text);
    const { error, message } = (body ?? {}) as { error?: unknown; message?: unknown };
    const said = typeof error === "string" ? error : typeof message === "string" ? message : "";
    return withoutSecrets(said)
      .replaceAll(/\p{Cc}+/gu, " ")
      .slice(0, MAX_TEXT);
  } catch {
    return "";
  }
}
