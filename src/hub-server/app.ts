// The hub as a function from request to answer: what surrounds every route (request id, log, origin, token, lookup
// of the repository), and the table of routes. No sockets here.

import { randomBytes } from "node:crypto";
import { Hono } from "hono";
import { type Identity, requireRead, requireWrite } from "./auth/identity.js";
import { badRequest, HubError, repoNotFound } from "./errors.js";
import { type Call, expandPath, type Hub, type HubContext, type HubEnv, type Route } from "./http/call.js";
import { corsHeaders, isLoopback, type OriginRule, preflightHeaders } from "./http/cors.js";
import { errorResponse, notFoundResponse } from "./http/errors.js";
import { logEntry, type RequestLogEntry } from "./http/request-log.js";
import { parseRepoId, type RepoId, type RepoType, repoTypes } from "./repo-id.js";
import { downloadRoutes } from "./routes/download.js";
import { historyRoutes } from "./routes/history.js";
import { identityRoutes } from "./routes/identity.js";
import { lfsRoutes } from "./routes/lfs.js";
import { repoRoutes } from "./routes/repos.js";
import { treeRoutes } from "./routes/tree.js";
import { uploadRoutes } from "./routes/upload.js";

const routes: readonly Route[] = [
  ...identityRoutes,
  ...repoRoutes,
  ...treeRoutes,
  ...historyRoutes,
  ...uploadRoutes,
  ...lfsRoutes,
  ...downloadRoutes,
];

export interface AppOptions {
  readonly hub: Hub;
  readonly identify: (authorization: string | undefined) => Identity;
  readonly origins: OriginRule;
  /** Where clients reach the hub, without a slash at the end; absent: as each request says. */
  readonly publicUrl: string | undefined;
  readonly onRequest: ((entry: RequestLogEntry) => void) | undefined;
}

export function createApp(options: AppOptions): Hono<HubEnv> {
  const app = new Hono<HubEnv>();
  const failures = new WeakMap<HubContext, string>();
  app.use(async (c, next) => {
    const startedMs = performance.now();
    c.set("requestId", randomBytes(12).toString("hex"));
    c.header("X-Request-Id", c.get("requestId"));
    c.header("X-Content-Type-Options", "nosniff");
    c.header("Content-Security-Policy", "default-src 'none'; sandbox");
    await next();
    if (options.onRequest === undefined) return;
    const report = () => options.onRequest?.(logEntry(c, c.res.status, startedMs, failures.get(c)));
    const { outgoing } = c.env ?? {};
    if (outgoing === undefined) report();
    else outgoing.once("close", report);
  });
  app.use(async (c, next) => {
    checkHost(c, options);
    const cors = corsHeaders(c.req.header("origin"), options.origins);
    for (const [name, value] of Object.entries(cors)) c.header(name, value);
    if (c.req.method === "OPTIONS") {
      return c.body(
        null,
        204,
        preflightHeaders(c.req.header("access-control-request-private-network") === "true"),
      );
    }
    c.set("identity", options.identify(c.req.header("authorization")));
    return next();
  });
  for (const route of routes) {
    if (route.access === "anyone") addRoute(app, options, route, route.path, undefined);
    else for (const type of repoTypes) addRoute(app, options, route, expandPath(route.path, type), type);
  }
  app.notFound(notFoundResponse);
  app.onError((error, c) => {
    if (!(error instanceof HubError)) failures.set(c, error.stack ?? error.message);
    return errorResponse(c, error);
  });
  return app;
}

function addRoute(
  app: Hono<HubEnv>,
  options: AppOptions,
  route: Route,
  path: string,
  type: RepoType | undefined,
): void {
  const fixedSegments = path.split("/").length - 1;
  app.on(route.method, path, async (c) => {
    const call: Call = {
      c,
      hub: options.hub,
      identity: c.get("identity"),
      base: options.publicUrl ?? new URL(c.req.url).origin,
      tail: path.endsWith("/*") ? decodeTail(c, fixedSegments) : [],
    };
    if (route.access === "anyone") return route.handle(call);
    const id = idOf(c, type!);
    const repo = await options.hub.store.find(id);
    if (repo === undefined) throw repoNotFound(`${id.namespace}/${id.name}`);
    requireRead(call.identity, repo);
    if (route.access === "write") requireWrite(call.identity, id);
    return route.handle({ ...call, repo });
  });
}

/** A name outside the grammar is a repository that does not exist. */
function idOf(c: HubContext, type: RepoType): RepoId {
  const [namespace, name] = [c.req.param("namespace") ?? "", c.req.param("name") ?? ""];
  try {
    return parseRepoId(type, namespace, name.replace(/\.git$/, ""));
  } catch {
    throw repoNotFound(`${namespace}/${name}`.slice(0, 200));
  }
}

/** From the address as it was sent: hono's decoded path no longer tells `%2F` from `/`. */
function decodeTail(c: HubContext, fixedSegments: number): string[] {
  const segments = new URL(c.req.url).pathname.split("/").slice(fixedSegments);
  try {
    return segments.map(decodeURIComponent);
  } catch {
    throw badRequest("the address is not well encoded");
  }
}

/**
 * Without tokens the hub trusts its own machine. A web page could make the browser call it under a name that the
 * page's owner controls, so other names than this machine's are refused.
 */
function checkHost(c: HubContext, { hub, publicUrl }: AppOptions): void {
  if (!hub.isOpen) return;
  const { hostname, origin } = new URL(c.req.url);
  if (isLoopback(hostname) || origin === publicUrl) return;
  throw new HubError(403, "Forbidden", `a hub without tokens answers to localhost only, not to ${hostname}`);
}
