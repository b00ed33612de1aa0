// Browsers: which pages may talk to the hub. With tokens any page may, since a page has no token of its own; a hub
// without tokens answers pages of this machine only, or any page on the web could use it through a visitor.

import { HubError } from "../errors.js";

export interface OriginRule {
  /** Origins such as `https://lab.example`, or `*`. Absent: as above. */
  readonly allowed: readonly string[] | undefined;
  readonly isOpen: boolean;
}

const exposed =
  "X-Repo-Commit, X-Request-Id, X-Error-Code, X-Error-Message, X-Total-Count, ETag, Link, Accept-Ranges, " +
  "Content-Range, Content-Length, X-Linked-Size, X-Linked-ETag";

const preflight = {
  "Access-Control-Allow-Methods": "GET, HEAD, POST, PUT, DELETE",
  "Access-Control-Allow-Headers":
    "Authorization, Content-Type, Range, If-None-Match, If-Range, X-Request-Id, Accept",
  "Access-Control-Max-Age": "86400",
};

/** Headers for the answer to a page; none for other clients. Throws HubError 403 for a page that is not allowed. */
export function corsHeaders(origin: string | undefined, rule: OriginRule): Record<string, string> {
  if (origin === undefined) return {};
  if (!isAllowed(origin, rule)) {
    throw new HubError(403, "Forbidden", `pages of ${origin.slice(0, 200)} may not use this hub`);
  }
  return { "Access-Control-Allow-Origin": origin, "Access-Control-Expose-Headers": exposed, Vary: "Origin" };
}

export function preflightHeaders(isPrivateNetwork: boolean): Record<string, string> {
  return isPrivateNetwork ? { ...preflight, "Access-Control-Allow-Private-Network": "true" } : preflight;
}

function isAllowed(origin: string, { allowed, isOpen }: OriginRule): boolean {
  if (allowed !== undefined) return allowed.includes("*") || allowed.includes(origin);
  if (!isOpen) return true;
  try {
    return isLoopback(new URL(origin).hostname);
  } catch {
    return false;
  }
}

export function isLoopback(hostname: string): boolean {
  const name = hostname.toLowerCase().replace(/^\[(.*)\]$/, "$1");
  return (
    name === "localhost" ||
    name.endsWith(".localhost") ||
    name === "::1" ||
    /^127(?:\.[0-9]{1,3}){3}$/.test(name)
  );
}
