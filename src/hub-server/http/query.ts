// Values from the query string, and the header that leads to a listing's next page.

import { badRequest } from "../errors.js";
import type { Call } from "./call.js";

/** A whole number of at least 1, capped at `most`. */
export function queryLimit(text: string | undefined, standard: number, most: number): number {
  if (text === undefined) return Math.min(standard, most);
  const value = Number(text);
  if (!Number.isSafeInteger(value) || value < 1) {
    throw badRequest(`limit=${text.slice(0, 20)} is not a whole number of at least 1`);
  }
  return Math.min(value, most);
}

export function queryFlag(text: string | undefined): boolean {
  return text !== undefined && /^(?:true|1)$/i.test(text);
}

/** `Link` to the same request from `cursor` on. Absolute: the clients follow nothing else. */
export function nextPage({ c, base }: Call, cursor: string): Record<string, string> {
  const { pathname, searchParams } = new URL(c.req.url);
  searchParams.set("cursor", Buffer.from(cursor).toString("base64url"));
  return { Link: `<${base}${pathname}?${searchParams}>; rel="next"` };
}

export function queryCursor(text: string | undefined): string | undefined {
  return text === undefined ? undefined : Buffer.from(text, "base64url").toString();
}

/** Splits the segments after `tree/` and the like into a revision and a path. `refs/heads/x` may come in pieces. */
export function splitRevision(tail: readonly string[]): { readonly revision: string; readonly path: string } {
  const isRef =
    tail[0] === "refs" && tail.length >= 3 && ["heads", "tags", "pr", "convert"].includes(tail[1]!);
  const count = isRef ? 3 : 1;
  const rest = tail.slice(count).join("/");
  return { revision: tail.slice(0, count).join("/"), path: rest.endsWith("/") ? rest.slice(0, -1) : rest };
}
