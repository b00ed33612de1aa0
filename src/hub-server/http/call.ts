// What a route gets, and how a route is described. Routes are data: the server adds authentication, lookup of the
// repository and error answers around them.

import type { HttpBindings } from "@hono/node-server";
import type { Context } from "hono";
import type { Identity } from "../auth/identity.js";
import type { HubLimits } from "../limits.js";
import type { RepoType } from "../repo-id.js";
import type { HubStore } from "../store/hub-store.js";
import type { Repository } from "../store/repository.js";

export interface HubEnv {
  /** Absent when the app is called without a socket. */
  Bindings: Partial<HttpBindings>;
  Variables: { identity: Identity; requestId: string };
}

export type HubContext = Context<HubEnv>;

export interface Hub {
  readonly store: HubStore;
  readonly limits: HubLimits;
  readonly now: () => Date;
  readonly isOpen: boolean;
}

export interface Call {
  readonly c: HubContext;
  readonly hub: Hub;
  readonly identity: Identity;
  /** Scheme and host under which the client knows us, without a slash at the end. */
  readonly base: string;
  /** Path segments that `/*` stands for, decoded one by one: a revision may hold a slash of its own. */
  readonly tail: readonly string[];
}

export interface RepoCall extends Call {
  readonly repo: Repository;
}

export type Method = "GET" | "POST" | "PUT" | "DELETE";

/**
 * `{api}`, `{content}` and `{git}` in a path stand for each type's prefix and the repository's two names; such a route gets
 * the repository and needs `read` or `write` on it. GET also answers HEAD.
 */
export type Route =
  | {
      readonly method: Method;
      readonly path: `/${string}`;
      readonly access: "anyone";
      readonly handle: (call: Call) => Promise<Response> | Response;
    }
  | {
      readonly method: Method;
      readonly path: `{api}${string}` | `{content}${string}` | `{git}${string}`;
      readonly access: "read" | "write";
      readonly handle: (call: RepoCall) => Promise<Response> | Response;
    };

/** The path for one type of repository, as hono writes it. */
export function expandPath(path: string, type: RepoType): string {
  const content = type === "model" ? "" : `/${type}s`;
  return path
    .replace("{api}", `/api/${type}s/:namespace/:name`)
    .replace("{content}", `${content}/:namespace/:name`)
    .replace("{git}", `${content}/:namespace/:name{[^/]+\\.git}`);
}
