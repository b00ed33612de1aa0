// Reading request bodies: in pieces, never more than allowed, and given up when nothing arrives for a while. There
// is no limit on the whole time, since slow lines are healthy.

import { parseForeignJson } from "../../util/json-depth.js";
import { badRequest, HubError, tooLarge } from "../errors.js";
import type { Call } from "./call.js";

/**
 * The body piece by piece. Throws HubError 413 before the first piece if `Content-Length` says too much, and as soon
 * as more than `maxBytes` have come; 408 after a stall; 400 if the connection ends early.
 */
export async function* bodyChunks({ c, hub }: Call, maxBytes: number): AsyncGenerator<Uint8Array> {
  const declared = c.req.header("content-length");
  const declaredBytes = declared === undefined ? undefined : Number(declared);
  if (declaredBytes !== undefined && declaredBytes > maxBytes) {
    throw tooLarge(`the request has ${declared} bytes; at most ${maxBytes} are taken here`);
  }
  const encoding = c.req.header("content-encoding");
  if (encoding !== undefined && encoding !== "identity") {
    throw new HubError(
      415,
      "NotSupported",
      `Content-Encoding ${encoding} is not supported; send the body as it is`,
    );
  }
  const source = openBody(c);
  if (source === undefined) return;
  let hasStalled = false;
  // While the caller works on a piece, it is not the client who keeps us waiting.
  let isWaiting = true;
  const timer = setTimeout(() => {
    if (!isWaiting) return void timer.refresh();
    hasStalled = true;
    source.abandon();
  }, hub.limits.stallTimeoutMs);
  let receivedBytes = 0;
  try {
    for await (const chunk of source.chunks) {
      receivedBytes += chunk.byteLength;
      if (receivedBytes > maxBytes)
        throw tooLarge(`the request has more than the ${maxBytes} bytes that are taken here`);
      isWaiting = false;
      yield chunk;
      isWaiting = true;
      timer.refresh();
    }
  } catch (error) {
    if (error instanceof HubError) throw error;
    if (hasStalled) throw stalled(hub.limits.stallTimeoutMs, receivedBytes);
    throw new HubError(
      400,
      "InvalidRequest",
      `the connection ended after ${receivedBytes} bytes of the body`,
      {
        cause: error,
      },
    );
  } finally {
    clearTimeout(timer);
  }
  if (hasStalled) throw stalled(hub.limits.stallTimeoutMs, receivedBytes);
  if (declaredBytes !== undefined && receivedBytes !== declaredBytes) {
    throw badRequest(`the body has ${receivedBytes} bytes, Content-Length says ${declaredBytes}`);
  }
}

export async function readText(call: Call): Promise<string> {
  const { maxJsonBytes, maxReaderJsonBytes } = call.hub.limits;
  const most = call.identity.role === "write" ? maxJsonBytes : Math.min(maxJsonBytes, maxReaderJsonBytes);
  const chunks: Uint8Array[] = [];
  for await (const chunk of bodyChunks(call, most)) chunks.push(Uint8Array.from(chunk));
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(Buffer.concat(chunks));
  } catch {
    throw badRequest("the body is not UTF-8");
  }
}

export async function readJson(call: Call): Promise<Record<string, unknown>> {
  return parseJsonObject(await readText(call), "the body");
}

export function parseJsonObject(text: string, what: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = parseForeignJson(text);
  } catch (error) {
    throw badRequest(`${what} is not JSON (${(error as Error).message.slice(0, 120)})`);
  }
  if (!isObject(value)) throw badRequest(`${what} must be a JSON object`);
  return value;
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

interface BodySource {
  readonly chunks: AsyncIterable<Uint8Array>;
  /** Makes the iteration end or fail. */
  abandon(): void;
}

function openBody(c: Call["c"]): BodySource | undefined {
  const incoming = c.env?.incoming;
  if (incoming !== undefined && "iterator" in incoming) {
    return {
      // Left open when the reading stops early: the answer goes over the same socket.
      chunks: incoming.iterator({ destroyOnReturn: false }) as AsyncIterable<Uint8Array>,
      abandon: () => incoming.destroy(),
    };
  }
  const body = c.req.raw.body;
  if (body === null) return undefined;
  const reader = body.getReader();
  return {
    chunks: (async function* () {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        yield value;
      }
    })(),
    abandon: () => void reader.cancel().catch(() => undefined),
  };
}

function stalled(timeoutMs: number, receivedBytes: number): HubError {
  return new HubError(
    408,
    "Stalled",
    `no new byte for ${timeoutMs / 1000} s after ${receivedBytes} bytes of the body`,
  );
}
