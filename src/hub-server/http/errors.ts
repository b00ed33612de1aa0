// Every failure as the clients read it: JSON, a code header, never HTML, and nothing of our inside for faults of
// our own.

import type { ContentfulStatusCode } from "hono/utils/http-status";
import { HubError, type HubErrorCode, systemCode } from "../errors.js";
import type { HubContext } from "./call.js";

export function errorResponse(c: HubContext, error: unknown): Response {
  const { status, errorCode, message, body, headers } = toHubError(error);
  const payload = { error: message, ...body };
  return c.json(payload, status as ContentfulStatusCode, {
    ...headers,
    "X-Error-Code": errorCode,
    "X-Error-Message": headerText(message),
  });
}

export function notFoundResponse(c: HubContext): Response {
  const { path } = c.req;
  // A name that cannot be a repository's, or a type that is not served: to the client a missing repository.
  const isAboutRepo = /^\/api\/(?:models|datasets|spaces|kernels)\//.test(path) || path.includes("/resolve/");
  const code: HubErrorCode = isAboutRepo ? "RepoNotFound" : "NotFound";
  return errorResponse(
    c,
    new HubError(404, code, `nothing here answers ${c.req.method} ${path.slice(0, 200)}`),
  );
}

function toHubError(error: unknown): HubError {
  if (error instanceof HubError) return error;
  const code = systemCode(error) ?? (error as { systemCode?: unknown }).systemCode;
  if (code === "ENOSPC" || code === "EDQUOT") {
    return new HubError(507, "NoSpace", "the hub's disk is full; nothing of this request was kept", {
      cause: error,
    });
  }
  return new HubError(500, "Internal", "the hub failed; its log has the reason under this request id", {
    cause: error,
  });
}

/** Header values hold visible ASCII only. */
function headerText(message: string): string {
  return message.replaceAll(/[^\x20-\x7e]/g, "?").slice(0, 500);
}
