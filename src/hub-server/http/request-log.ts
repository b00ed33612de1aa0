// One entry per request, when its answer is done. Holds neither headers nor the query, where tokens and signatures
// are.

import type { HubContext } from "./call.js";

export interface RequestLogEntry {
  readonly time: string;
  readonly requestId: string;
  readonly method: string;
  /** As sent, percent-encoded. */
  readonly path: string;
  readonly status: number;
  readonly durationMs: number;
  /** Name of the token. */
  readonly user: string;
  readonly remoteAddress?: string;
  /** Why a request failed, if the fault was ours. */
  readonly failure?: string;
}

export function logEntry(
  c: HubContext,
  status: number,
  startedMs: number,
  failure: string | undefined,
): RequestLogEntry {
  const remoteAddress = c.env?.incoming?.socket.remoteAddress;
  return {
    time: new Date().toISOString(),
    requestId: c.get("requestId"),
    method: c.req.method,
    path: new URL(c.req.url).pathname,
    status,
    durationMs: Math.round(performance.now() - startedMs),
    user: c.get("identity")?.name ?? "?",
    ...(remoteAddress === undefined ? {} : { remoteAddress }),
    ...(failure === undefined ? {} : { failure }),
  };
}

export function formatLogEntry(entry: RequestLogEntry): string {
  const { time, requestId, method, path, status, durationMs, user, remoteAddress = "-", failure } = entry;
  const tail = failure === undefined ? "" : ` ${JSON.stringify(failure)}`;
  return `${time} ${remoteAddress} ${user} ${method} ${path} ${status} ${durationMs}ms ${requestId}${tail}\n`;
}
