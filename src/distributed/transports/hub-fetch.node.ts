// What a hub transport of Node uses beyond what every platform has: downloads that cost a third of those by `fetch`, which
// copies every 64 KB of a body twice, each time into new memory; and files sent from the disk.

import { openAsBlob } from "node:fs";
import { Agent as HttpAgent, type IncomingMessage, request as requestHttp } from "node:http";
import { Agent as HttpsAgent, request as requestHttps } from "node:https";
import type { HubTransportOptions } from "./hub.js";

/** Connections stay open between the parts of a file, and keep no process alive meanwhile. */
const agents = {
  http: new HttpAgent({ keepAlive: true }),
  https: new HttpsAgent({ keepAlive: true }),
} as const;

/**
 * `fetch` with `redirect: "manual"`, for bodies that come as they are. Everything else is passed on to the platform's,
 * which unpacks bodies and sends some.
 */
export const hubFetch: typeof fetch = async (input, init = {}) => {
  const headers = new Headers(init.headers);
  const isPlain = (init.method ?? "GET") === "GET" && headers.get("accept-encoding") === "identity";
  if (typeof input !== "string" || !isPlain || init.redirect !== "manual") return fetch(input, init);
  const signal = init.signal ?? undefined;
  try {
    return toResponse(await get(new URL(input), headers, signal));
  } catch (error) {
    signal?.throwIfAborted();
    throw new TypeError("fetch failed", { cause: error });
  }
};

/** For a {@link HubTransport} in Node. */
export const nodeHub: Required<Pick<HubTransportOptions, "fetch" | "blobOf">> = {
  fetch: hubFetch,
  blobOf: async ({ localPath }) => (localPath === undefined ? undefined : openAsBlob(localPath)),
};

function get(
  url: URL,
  headers: Headers,
  signal: AbortSignal | undefined,
  isAgain = false,
): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const options = { headers: Object.fromEntries(headers), signal };
    const request =
      url.protocol === "https:"
        ? requestHttps(url, { ...options, agent: agents.https })
        : requestHttp(url, { ...options, agent: agents.http });
    request.once("response", resolve);
    request.on("error", (error: NodeJS.ErrnoException) => {
      // The server closed a connection that was kept open, just when it was to be used again.
      const isStale = request.reusedSocket && error.code === "ECONNRESET" && !isAgain;
      if (isStale) resolve(get(url, headers, signal, true));
      else reject(error);
    });
    request.end();
  });
}

function toResponse(message: IncomingMessage): Response {
  const headers = new Headers();
  for (let i = 0; i < message.rawHeaders.length; i += 2)
    headers.append(message.rawHeaders[i]!, message.rawHeaders[i + 1]!);
  const status = message.statusCode!;
  const isEmpty = [204, 205, 304].includes(status);
  if (isEmpty) message.resume();
  return new Response(isEmpty ? null : bodyOf(message), {
    status,
    statusText: message.statusMessage ?? "",
    headers,
  });
}

/** One piece per pull. What comes after its reader has left goes nowhere. */
function bodyOf(message: IncomingMessage): ReadableStream<Uint8Array> {
  message.pause();
  return new ReadableStream<Uint8Array>(
    {
      start(controller) {
        message.on("data", (piece: Buffer) => {
          message.pause();
          controller.enqueue(piece);
        });
        message.once("end", () => controller.close());
        message.once("error", (error) => controller.error(error));
      },
      pull() {
        message.resume();
      },
      cancel() {
        message.removeAllListeners("data").removeAllListeners("end").removeAllListeners("error");
        message.on("error", () => undefined).destroy();
      },
    },
    { highWaterMark: 1 },
  );
}
