// The hub as a server: opens the store, listens, and stops without cutting off what is under way.

import { createServer as createHttpServer, type Server } from "node:http";
import { createServer as createHttpsServer } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import { createAdaptorServer } from "@hono/node-server";
import type { Hono } from "hono";
import { ConfigError } from "../util/errors.js";
import { createApp } from "./app.js";
import { openDoor, readTokenFile } from "./auth/tokens.js";
import type { HubEnv } from "./http/call.js";
import { isLoopback } from "./http/cors.js";
import type { RequestLogEntry } from "./http/request-log.js";
import { defaultHubLimits, type HubLimits } from "./limits.js";
import { HubStore } from "./store/hub-store.js";

export interface HubServerOptions {
  /** Folder of the store; made if needed. One process at a time may serve it. */
  readonly root: string;
  /** Address to bind (default `127.0.0.1`). Any other than this machine's own needs `tokenFile`. */
  readonly host?: string;
  /** Default 0: any free port. */
  readonly port?: number;
  /** Who may do what. Absent: everyone who reaches the server may do everything. */
  readonly tokenFile?: string;
  /** PEM texts. */
  readonly tls?: { readonly cert: string | Buffer; readonly key: string | Buffer };
  /** Address under which clients reach the server, if not the one that they call (behind a proxy). */
  readonly publicUrl?: string;
  /** Origins whose pages may use the hub. Default: any with tokens, only this machine's without. */
  readonly allowedOrigins?: readonly string[];
  readonly limits?: Partial<HubLimits>;
  /** Called once per request, when its answer is done. */
  readonly onRequest?: (entry: RequestLogEntry) => void;
  readonly now?: () => Date;
}

export interface HubServer {
  /** `app.fetch(request)` and `app.request(path)` work without a socket. */
  readonly app: Hono<HubEnv>;
  /** Starts to listen and returns the endpoint, such as `http://127.0.0.1:8123`. */
  listen(): Promise<string>;
  /** Takes no new requests, waits for those under way at most `graceMs` (default 10,000), gives the folder free. */
  close(options?: { readonly graceMs?: number }): Promise<void>;
}

/** A connection on which nothing moves for this long is closed, for instance to a client that stopped reading. */
const IDLE_SOCKET_MS = 300_000;
const HEADERS_TIMEOUT_MS = 30_000;
const KEEP_ALIVE_MS = 65_000;
/** More are turned away at once, so that there are always files left to open. */
const MAX_CONNECTIONS = 4096;

/** Throws ConfigError for a folder in use, a bad token file, or an open address without tokens. */
export async function createHubServer(options: HubServerOptions): Promise<HubServer> {
  const host = options.host ?? "127.0.0.1";
  const isOpen = options.tokenFile === undefined;
  if (isOpen && !isLoopback(host)) {
    throw new ConfigError(
      `${host}: other machines could reach this address, and without tokens everyone may read and write; ` +
        "give --token-file (make one with `speedtronic hub token`) or bind 127.0.0.1",
      { code: "hub.open_address", details: { host } },
    );
  }
  const tokens = options.tokenFile === undefined ? openDoor : await readTokenFile(options.tokenFile);
  const publicUrl =
    options.publicUrl === undefined ? undefined : checkOrigin(options.publicUrl, "the public address");
  const allowed = options.allowedOrigins?.map((origin) =>
    origin === "*" ? origin : checkOrigin(origin, "an allowed origin"),
  );
  const limits = { ...defaultHubLimits, ...options.limits };
  const now = options.now ?? (() => new Date());
  const store = await HubStore.open(options.root, { now, maxFiles: limits.maxRepoFiles });
  const app = createApp({
    hub: { store, limits, now, isOpen },
    identify: (authorization) => tokens.identify(authorization),
    origins: { allowed, isOpen },
    publicUrl,
    onRequest: options.onRequest,
  });
  let server: Server | undefined;
  let closing: Promise<void> | undefined;
  return {
    app,
    listen: async () => {
      server = await startServer(app, host, options.port ?? 0, options.tls).catch(async (error: unknown) => {
        await store.close();
        throw explainListenError(error, host, options.port ?? 0);
      });
      const { port } = server.address() as AddressInfo;
      return `${options.tls === undefined ? "http" : "https"}://${urlHost(host)}:${port}`;
    },
    close: (how = {}) => {
      closing ??= stopServer(server, how.graceMs ?? 10_000).finally(() => store.close());
      return closing;
    },
  };
}

async function startServer(
  app: Hono<HubEnv>,
  host: string,
  port: number,
  tls: HubServerOptions["tls"],
): Promise<Server> {
  const adaptor = { fetch: app.fetch, overrideGlobalObjects: false } as const;
  const server = (
    tls === undefined
      ? createAdaptorServer({ ...adaptor, createServer: createHttpServer })
      : createAdaptorServer({ ...adaptor, createServer: createHttpsServer, serverOptions: { ...tls } })
  ) as Server;
  // A large file on a slow line takes its time; bodies that stall are given up where they are read.
  server.requestTimeout = 0;
  server.headersTimeout = HEADERS_TIMEOUT_MS;
  server.keepAliveTimeout = KEEP_ALIVE_MS;
  server.timeout = IDLE_SOCKET_MS;
  server.maxConnections = MAX_CONNECTIONS;
  watchConnections(server, tls === undefined ? "connection" : "secureConnection");
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, () => {
      server.off("error", reject);
      resolve();
    });
  });
  return server;
}

/** The requests that each open connection is answering. Node's own idea of "idle" leaves out those never used. */
const openRequests = new WeakMap<Server, Map<Socket, number>>();

function watchConnections(server: Server, event: "connection" | "secureConnection"): void {
  const connections = new Map<Socket, number>();
  openRequests.set(server, connections);
  server.on(event, (socket: Socket) => {
    connections.set(socket, 0);
    socket.once("close", () => connections.delete(socket));
  });
  server.on("request", ({ socket }, response) => {
    connections.set(socket, (connections.get(socket) ?? 0) + 1);
    response.once("close", () => {
      const left = connections.get(socket);
      if (left !== undefined) connections.set(socket, left - 1);
    });
  });
}

function closeQuietConnections(server: Server): void {
  for (const [socket, open] of openRequests.get(server) ?? []) if (open === 0) socket.destroy();
}

async function stopServer(server: Server | undefined, graceMs: number): Promise<void> {
  if (server === undefined) return;
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  closeQuietConnections(server);
  // A connection becomes quiet when its answer is out, and would then be kept alive.
  const sweeper = setInterval(() => closeQuietConnections(server), 50);
  const force = setTimeout(() => server.closeAllConnections(), graceMs);
  await closed;
  clearInterval(sweeper);
  clearTimeout(force);
}

/** What a browser sends as `Origin`, and what a client has as the endpoint. */
function checkOrigin(text: string, what: string): string {
  let url: URL | undefined;
  try {
    url = new URL(text);
  } catch {
    url = undefined;
  }
  if (url === undefined || !/^https?:$/.test(url.protocol) || url.pathname !== "/" || url.search !== "") {
    throw new ConfigError(`${text}: ${what} must be http(s)://HOST[:PORT] without a path`, {
      code: "hub.public_url",
    });
  }
  return url.origin;
}

function explainListenError(error: unknown, host: string, port: number): unknown {
  const code = (error as NodeJS.ErrnoException).code;
  if (code === "EADDRINUSE" || code === "EACCES" || code === "EADDRNOTAVAIL") {
    const reason =
      code === "EADDRINUSE" ? "is in use" : code === "EACCES" ? "needs more rights" : "is not this machine's";
    return new ConfigError(
      `cannot listen on ${host}:${port}: the address ${reason} (${code}); choose another`,
      {
        code: "hub.listen",
        cause: error,
      },
    );
  }
  return error;
}

function urlHost(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}
