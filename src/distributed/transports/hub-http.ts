// Requests to a hub as this project sends them: redirects followed by hand, the token to the hub's own origin only,
// time-outs by progress, failures as TransportError. The Hub's client library gets the same through `clientFetch`.

import { TransportError } from "./errors.js";
import { watchedBlob } from "./hub-blob.js";
import { errorFromNetwork, errorFromResponse, type RequestFacts } from "./hub-errors.js";
import { StallWatch, watchBody } from "./hub-watch.js";

export interface HubHttpOptions {
  /** Without a slash at the end. */
  readonly endpoint: string;
  /** Must belong to `endpoint`: see `resolveHub`. */
  readonly token?: string | undefined;
  /** A request on which nothing moves for this long is given up (default 60,000). */
  readonly stallMs?: number | undefined;
  readonly fetch?: typeof fetch | undefined;
  readonly now?: (() => number) | undefined;
}

export interface HubRequest extends RequestFacts {
  readonly url: string;
  readonly method?: string | undefined;
  readonly headers?: HeadersInit | undefined;
  readonly body?: BodyInit | null | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Sent without the token. */
  readonly isAnonymous?: boolean | undefined;
}

export interface HubAnswer {
  readonly response: Response;
  /** Where the answer came from in the end. */
  readonly url: string;
  /** What the hub said about the file before it sent us to its store; the answer's own headers without a redirect. */
  readonly firstHeaders: Headers;
}

const DEFAULT_STALL_MS = 60_000;
const MAX_REDIRECTS = 5;
const REDIRECTS = new Set([301, 302, 303, 307, 308]);
/** Texts from this size on are sent in pieces, so that their progress can be seen. */
const PIECEWISE_CHARS = 1 << 16;

export class HubHttp {
  readonly endpoint: string;
  readonly #origin: string;
  readonly #authorization: string | undefined;
  readonly #stallMs: number;
  readonly #fetch: typeof fetch;
  readonly #now: () => number;
  readonly #closed = new AbortController();

  constructor({ endpoint, token, stallMs = DEFAULT_STALL_MS, ...rest }: HubHttpOptions) {
    this.endpoint = endpoint;
    this.#origin = new URL(endpoint).origin;
    this.#authorization = token === undefined ? undefined : `Bearer ${token}`;
    this.#stallMs = stallMs;
    this.#fetch = rest.fetch ?? ((input, init) => fetch(input, init));
    this.#now = rest.now ?? Date.now;
  }

  /** Ends all requests under way. */
  close(): void {
    this.#closed.abort(new TransportError("unavailable", `${this.endpoint}: the connector was closed`));
  }

  /** With the token; the status may be any. Rejects with TransportError, or with the signal's reason. */
  ask(request: HubRequest): Promise<HubAnswer> {
    const headers = new Headers(request.headers);
    if (this.#authorization !== undefined && request.isAnonymous !== true)
      headers.set("Authorization", this.#authorization);
    return this.#follow(request, headers);
  }

  /** The error that an answer stands for. */
  toError({ response, url }: HubAnswer, facts: RequestFacts): Promise<TransportError> {
    return errorFromResponse(response, { ...facts, isForeign: this.#isForeign(url) }, this.#now());
  }

  /** A `fetch` for the Hub's client, which sets headers itself. Answers that are not successes become TransportError. */
  clientFetch(facts: RequestFacts, signal: AbortSignal | undefined, onCommit: () => void): typeof fetch {
    return async (input, init = {}) => {
      const url = input instanceof Request ? input.url : String(input);
      const isCommit =
        init.method === "POST" && url.startsWith(`${this.endpoint}/api/`) && url.includes("/commit/");
      if (isCommit) onCommit();
      const signals = [signal, init.signal].filter((one) => one !== undefined && one !== null);
      const answer = await this.#follow(
        {
          ...facts,
          isCommit,
          url,
          method: init.method,
          body: init.body,
          signal: signals.length === 0 ? undefined : AbortSignal.any(signals),
        },
        new Headers(init.headers),
      );
      if (answer.response.ok) return answer.response;
      throw await this.toError(answer, { ...facts, isCommit });
    };
  }

  async #follow(request: HubRequest, headers: Headers): Promise<HubAnswer> {
    const method = request.method ?? "GET";
    let url = new URL(request.url);
    let firstHeaders: Headers | undefined;
    for (let hops = 0; ; hops++) {
      if (url.origin !== this.#origin && headers.get("authorization") === this.#authorization)
        headers.delete("Authorization");
      const response = await this.#once(url, method, headers, request);
      firstHeaders ??= response.headers;
      const location = response.headers.get("location");
      if (response.type === "opaqueredirect") throw refusal(request, "this platform hides redirects");
      if (!REDIRECTS.has(response.status) || location === null)
        return { response, url: url.href, firstHeaders };
      await response.body?.cancel();
      const next = URL.canParse(location, url.href) ? new URL(location, url) : undefined;
      if (next === undefined) throw refusal(request, "the hub redirects to what is not an address");
      if (hops === MAX_REDIRECTS) throw refusal(request, `more than ${MAX_REDIRECTS} redirects`);
      if (!/^https?:$/.test(next.protocol) || (url.protocol === "https:" && next.protocol === "http:"))
        throw refusal(request, `the hub redirects from ${url.protocol} to ${next.protocol}`);
      if (method !== "GET" && method !== "HEAD") {
        if (response.status < 307)
          throw refusal(request, "the hub redirects a change; the repository or the hub may have moved");
        if (headers.has("authorization") && next.origin !== url.origin)
          throw refusal(request, `the hub redirects a change to ${next.host}; set the endpoint to it`);
      }
      if (next.origin !== url.origin) headers.delete("Authorization");
      url = next;
    }
  }

  async #once(url: URL, method: string, headers: Headers, request: HubRequest): Promise<Response> {
    const watch = new StallWatch(this.#stallMs, request.doing);
    const signals = [request.signal, this.#closed.signal, watch.signal].filter((one) => one !== undefined);
    const signal = AbortSignal.any(signals);
    const toError = (error: unknown): unknown => {
      if (request.signal?.aborted === true) return request.signal.reason;
      const broken = signal.aborted ? signal.reason : error;
      // Silence after a commit was sent says as little as a broken connection.
      if (request.isCommit === true && signal.aborted)
        return errorFromNetwork(new Error("no answer"), request);
      return errorFromNetwork(broken, request);
    };
    // Nothing is sent yet: not even a commit is in doubt.
    if (signal.aborted) {
      if (request.signal?.aborted === true) throw request.signal.reason;
      throw errorFromNetwork(signal.reason, { ...request, isCommit: false });
    }
    watch.touch();
    try {
      const send = (how: RequestInit) => {
        const body = watchedBody(request.body, () => watch.touch());
        return this.#fetch(url.href, { method, headers, signal, ...how, ...(body == null ? {} : { body }) });
      };
      const response =
        request.body instanceof Blob
          ? // Node keeps a copy of all that it sends, in memory, for as long as it might have to follow a redirect.
            await send({ redirect: "error", window: null }).catch((error: unknown) => {
              if (!isRedirectError(error)) throw error;
              return send({ redirect: "manual" });
            })
          : await send({ redirect: "manual" });
      if (response.body === null || response.type === "opaqueredirect") return response;
      const { status, statusText } = response;
      return new Response(watchBody(response.body, watch, toError), {
        status,
        statusText,
        headers: response.headers,
      });
    } catch (error) {
      throw toError(error);
    } finally {
      watch.rest();
    }
  }

  #isForeign(url: string): boolean {
    return new URL(url).origin !== this.#origin;
  }
}

/** What `fetch` of Node says instead of following one. */
function isRedirectError(error: unknown): boolean {
  const cause = error instanceof Error ? error.cause : undefined;
  return cause instanceof Error && /redirect/i.test(cause.message);
}

function watchedBody(body: BodyInit | null | undefined, touch: () => void): BodyInit | null | undefined {
  if (body instanceof Blob) return watchedBlob(body, touch);
  if (typeof body === "string" && body.length >= PIECEWISE_CHARS) return watchedBlob(new Blob([body]), touch);
  return body;
}

function refusal({ doing, path }: HubRequest, reason: string): TransportError {
  return new TransportError("invalid", `${doing}: ${reason}`, { path });
}
