// The connector to hubs when something is wrong: answers lost after the commit, limits, silence, answers that lie or
// do not end. The line between it and a real hub server breaks where a test says so.

import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, test } from "vitest";
import { TransportError } from "../../../src/distributed/transports/errors.js";
import { HubTransport, type HubTransportOptions } from "../../../src/distributed/transports/hub.js";
import { CommitBudget } from "../../../src/distributed/transports/hub-budget.js";
import { retryAfterMs } from "../../../src/distributed/transports/hub-errors.js";
import { createHubServer } from "../../../src/hub-server/index.js";
import { ALICE, scratch, writeTokens } from "../../hub-server/harness.js";
import { put, remove } from "./content.js";
import { problemOf } from "./contract-suite.js";

const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

type Line = (url: string, init: RequestInit, send: () => Promise<Response>) => Promise<Response>;
const isCommit = (url: string) => url.includes("/commit/");

/** A repository on a hub, a good connector, and one whose requests go through `line`. */
async function start(line: Line, options: Partial<HubTransportOptions> = {}) {
  const server = await createHubServer({ root: scratch(), port: 0, tokenFile: writeTokens(scratch()) });
  closers.push(() => server.close());
  const settings = { endpoint: await server.listen(), repo: "lab/run", token: ALICE };
  const good = new HubTransport(settings);
  await good.create();
  const urls: string[] = [];
  const troubled: typeof fetch = (input, init = {}) => {
    urls.push(String(input));
    return line(String(input), init, () => fetch(input, init));
  };
  const bad = new HubTransport({ ...settings, fetch: troubled, ...options });
  closers.push(
    () => good.close(),
    () => bad.close(),
  );
  return { good, bad, urls, parent: await good.head() };
}

/** A server of its own; its address, and what it was asked. */
async function serve(listener: RequestListener) {
  const seen: { method: string; url: string }[] = [];
  const server = createServer((request, response) => {
    seen.push({ method: request.method ?? "", url: request.url ?? "" });
    request.resume();
    listener(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closers.push(
    () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(resolve);
      }),
  );
  return { endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, seen };
}

const requestOn = (parent: string, path = "a.txt") => ({
  parent,
  message: "one",
  operations: [put(path, "a")],
});
const once = { retry: { attempts: 1 } };

test.each([500, 502, 504, 408])(
  "an answer %i after the commit was made is ambiguous, and it counts",
  async (status) => {
    const { good, bad, parent } = await start(async (url, _init, send) => {
      const answer = await send();
      if (!isCommit(url)) return answer;
      await answer.arrayBuffer();
      return new Response("", { status });
    });
    expect(await problemOf(bad.commit(requestOn(parent)))).toBe("ambiguous");
    expect(await good.head()).not.toBe(parent);
    expect(bad.budget.left).toBe(bad.budget.perHour - 1);
  },
);

test("a connection that breaks is ambiguous from the commit request on, and not before", async () => {
  const broken = new TypeError("fetch failed", {
    cause: Object.assign(new Error("reset"), { code: "ECONNRESET" }),
  });
  const during = await start(async (url, _init, send) => {
    if (!isCommit(url)) return send();
    throw broken;
  });
  const error = await during.bad.commit(requestOn(during.parent)).catch((reason: unknown) => reason);
  expect(error).toMatchObject({ problem: "ambiguous", message: expect.stringContaining("ECONNRESET") });
  const before = await start(async () => {
    throw broken;
  });
  expect(await problemOf(before.bad.commit(requestOn(before.parent)))).toBe("unavailable");
  expect(before.bad.budget.left).toBe(before.bad.budget.perHour);
  const refused = await start(async (url, _init, send) => {
    if (!isCommit(url)) return send();
    throw new TypeError("fetch failed", { cause: Object.assign(new Error("no"), { code: "ECONNREFUSED" }) });
  });
  // Nobody was there to receive it.
  expect(await problemOf(refused.bad.commit(requestOn(refused.parent)))).toBe("unavailable");
});

test("an answer to a commit that cannot be read is ambiguous", async () => {
  for (const text of ["<html>", "{}", '{"commitOid":"nonsense"}']) {
    const { bad, parent } = await start(async (url, _init, send) =>
      isCommit(url) ? new Response(text, { status: 200 }) : send(),
    );
    expect([text, await problemOf(bad.commit(requestOn(parent)))]).toEqual([text, "ambiguous"]);
  }
});

test("an aborted commit ends with the reason, whether it had begun or not, and sends nothing before", async () => {
  const reason = new Error("enough");
  const early = await start((_url, _init, send) => send());
  const aborted = { signal: AbortSignal.abort(reason) };
  expect(await problemOf(early.bad.commit(requestOn(early.parent), aborted))).toBe(reason);
  expect([early.urls, early.bad.budget.left]).toEqual([[], early.bad.budget.perHour]);
  const stop = new AbortController();
  const late = await start(async (url, _init, send) => {
    if (isCommit(url)) stop.abort(reason);
    return send();
  });
  expect(await problemOf(late.bad.commit(requestOn(late.parent), { signal: stop.signal }))).toBe(reason);
});

test("a connector that is closed before the commit request leaves nothing in doubt, later it does", async () => {
  const before = await start(async (_url, _init, send) => {
    const answer = await send();
    const text = await answer.text();
    await before.bad.close();
    return new Response(text, answer);
  });
  expect(await problemOf(before.bad.commit(requestOn(before.parent)))).toBe("unavailable");
  expect(before.urls.filter(isCommit)).toEqual([]);
  expect(await before.good.head()).toBe(before.parent);
  const during = await start(async (url, _init, send) => {
    if (isCommit(url)) await during.bad.close();
    return send();
  });
  expect(await problemOf(during.bad.commit(requestOn(during.parent)))).toBe("ambiguous");
});

test("a throttled commit says when to come back and does not count", async () => {
  const { good, bad, parent } = await start(async (url, _init, send) =>
    isCommit(url) ? new Response("", { status: 429, headers: { "Retry-After": "31" } }) : send(),
  );
  const error = await bad.commit(requestOn(parent)).catch((reason: unknown) => reason);
  expect(error).toMatchObject({ problem: "throttled", retryAfterMs: 31_000, isTransient: true });
  expect(bad.budget.left).toBe(bad.budget.perHour);
  expect(await good.head()).toBe(parent);
});

test("when to come back: seconds, a date by the server's clock, or the limits that are used up", () => {
  const now = Date.parse("2026-01-01T00:00:00Z");
  const of = (headers: Record<string, string>) => retryAfterMs(new Headers(headers), now);
  const date = "Thu, 01 Jan 2026 00:01:00 GMT";
  expect(of({ "Retry-After": " 12 " })).toBe(12_000);
  expect(of({ "Retry-After": date })).toBe(60_000);
  expect(of({ "Retry-After": date, Date: "Thu, 01 Jan 2026 00:00:50 GMT" })).toBe(10_000);
  expect(of({ "Retry-After": "Thu, 01 Jan 2015 00:00:00 GMT" })).toBe(0);
  expect(of({ RateLimit: '"api";r=0;t=189, "pages";r=5;t=300' })).toBe(189_000);
  expect(of({ RateLimit: '"api";r=10;t=189' })).toBeUndefined();
  expect(of({ "Retry-After": "soon" })).toBeUndefined();
  expect(of({})).toBeUndefined();
});

test("L-58: silence ends a request: unavailable for a read, ambiguous for a commit under way", async () => {
  const { endpoint } = await serve(() => undefined);
  const silent = new HubTransport({ endpoint, repo: "lab/run", stallMs: 40, ...once });
  const error = await silent.head().catch((reason: unknown) => reason);
  expect(error).toMatchObject({
    problem: "unavailable",
    message: expect.stringContaining("nothing moved for 0"),
  });
  const never: Line = (url, init, send) =>
    isCommit(url)
      ? new Promise((_, reject) =>
          init.signal?.addEventListener("abort", () => reject(init.signal?.reason), { once: true }),
        )
      : send();
  const { bad, parent } = await start(never, { stallMs: 1500 });
  expect(await problemOf(bad.commit(requestOn(parent)))).toBe("ambiguous");
});

test("an answer that stops in the middle ends the read", async () => {
  const { endpoint } = await serve((_request, response) => {
    response.writeHead(206, { "Content-Range": "bytes 0-9/10", "Content-Length": "10" });
    response.write("12345");
  });
  const hub = new HubTransport({ endpoint, repo: "lab/run", stallMs: 40, ...once });
  expect(await problemOf(hub.read("0".repeat(40), "a.txt", 10))).toBe("unavailable");
});

test("the budget counts an hour, takes back what was not made, and says when there is room", () => {
  let now = 1_000_000;
  const budget = new CommitBudget({ perHour: 2, now: () => now });
  const giveBack = budget.take("lab/run");
  now += 1000;
  budget.take("lab/run");
  expect(budget.left).toBe(0);
  now += 9000;
  const refused = () => budget.take("lab/run");
  expect(refused).toThrow(TransportError);
  expect(refused).toThrow("lab/run: this process made 2 commits within an hour and may make 2");
  const wait = () => {
    try {
      refused();
    } catch (error) {
      return (error as TransportError).retryAfterMs;
    }
    return undefined;
  };
  expect(wait()).toBe(3_600_000 - 10_000);
  giveBack();
  expect(budget.left).toBe(1);
  budget.take("lab/run");
  expect(wait()).toBe(3_600_000 - 9000);
  now += 3_600_000 - 9000;
  expect(budget.left).toBe(1);
});

test("taking one commit back twice gives room for one", () => {
  const budget = new CommitBudget({ perHour: 5, now: () => 0 });
  const giveBack = budget.take("lab/run");
  budget.take("lab/run");
  giveBack();
  giveBack();
  expect(budget.left).toBe(4);
});

test("a connector whose budget is used up sends nothing; a conflict costs nothing", async () => {
  const budget = new CommitBudget({ perHour: 1, now: () => 0 });
  const { good, bad, urls, parent } = await start((_url, _init, send) => send(), { budget });
  const head = await good.commit(requestOn(parent));
  expect(await problemOf(bad.commit(requestOn(parent)))).toBe("conflict");
  const own = await bad.commit(requestOn(head, "b.txt"));
  urls.length = 0;
  const error = await bad.commit(requestOn(own, "c.txt")).catch((reason: unknown) => reason);
  expect(error).toMatchObject({ problem: "throttled", retryAfterMs: 3_600_000 });
  expect(urls).toEqual([]);
});

const listing =
  (...paths: string[]): Line =>
  async (url, _init, send) =>
    /\/tree\//.test(url)
      ? Response.json(paths.map((path) => ({ type: "file", path, size: 1, oid: "0".repeat(40) })))
      : send();

test.each(["../x", "/etc/x", "nodes/../../x", "nodes//x", "./x", ""])(
  "a listing with %j is refused",
  async (path) => {
    const { bad, parent } = await start(listing("nodes/a.txt", path));
    const error = await bad.list(parent, "").catch((reason: unknown) => reason);
    expect(error).toMatchObject({ problem: "corrupt" });
    expect(String(error)).toContain(`lists ${JSON.stringify(path)}, which leads out of the repository`);
  },
);

test("security: names that no connector takes are left out of a listing", async () => {
  const { bad, parent } = await start(
    listing("nodes/a.txt", "nodes\\b.txt", "c\u0001.txt", "d".repeat(2000)),
  );
  expect((await bad.list(parent, "")).map(({ path }) => path)).toEqual(["nodes/a.txt"]);
});

test("pages that go in a circle, entries without a size and what is no list are corrupt", async () => {
  const page = { type: "file", path: "a", size: 1, oid: "0".repeat(40) };
  const answers: ((url: string) => Response)[] = [
    (url) => Response.json([page], { headers: { Link: `<${url}>; rel="next"` } }),
    () => Response.json([{ ...page, size: -1 }]),
    () => Response.json({ error: "none" }),
    () => new Response("<html>", { status: 200 }),
  ];
  for (const answer of answers) {
    const { bad, parent } = await start(async (url, _init, send) =>
      /\/tree\//.test(url) ? answer(url) : send(),
    );
    expect(await problemOf(bad.list(parent, ""))).toBe("corrupt");
  }
});

/** A body of zeros without an end; `pulled` counts what was taken of it. */
function endless(status: number, type: string) {
  let pulled = 0;
  const body = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        pulled += 1 << 20;
        controller.enqueue(new Uint8Array(1 << 20).fill(0x20));
      },
    },
    { highWaterMark: 0 },
  );
  const response = () => new Response(body, { status, headers: { "Content-Type": type } });
  return { response, pulled: () => pulled };
}

test("security: answers that do not end are given up: JSON, the text of an error, a file larger than asked for", async () => {
  const json = endless(200, "application/json");
  const list = await start(async (url, _init, send) => (/\/tree\//.test(url) ? json.response() : send()));
  const error = await list.bad.list(list.parent, "").catch((reason: unknown) => reason);
  expect(error).toMatchObject({
    problem: "corrupt",
    message: expect.stringContaining("more than 16777216 bytes"),
  });
  expect(json.pulled()).toBeLessThanOrEqual(18 << 20);
  const failure = endless(503, "application/json");
  const head = await start(async () => failure.response());
  expect(await problemOf(head.bad.head())).toBe("unavailable");
  expect(failure.pulled()).toBeLessThanOrEqual(2 << 20);
  const file = endless(200, "application/octet-stream");
  const read = await start(async () => {
    const response = file.response();
    response.headers.set("Content-Length", String(2 ** 40));
    return response;
  });
  expect(await problemOf(read.bad.read(read.parent, "a.txt", 1000))).toBe("invalid");
  expect(file.pulled()).toBeLessThanOrEqual(2 << 20);
});

test("security: a file whose bytes are not those of its hash is corrupt", async () => {
  const { good, bad, parent } = await start(async (url, _init, send) => {
    const answer = await send();
    if (!url.includes("/resolve/") || !answer.ok) return answer;
    const text = (await answer.text()).replace("a", "b");
    return new Response(text, { status: answer.status, headers: answer.headers });
  });
  const head = await good.commit(requestOn(parent));
  expect(await problemOf(bad.read(head, "a.txt", 10))).toBe("corrupt");
});

test("security: a change is not sent on to another place", async () => {
  const other = await serve((_request, response) => response.writeHead(200).end("{}"));
  for (const status of [302, 307, 308]) {
    const hub = await serve((_request, response) =>
      response.writeHead(status, { Location: `${other.endpoint}/elsewhere` }).end(),
    );
    const transport = new HubTransport({ endpoint: hub.endpoint, repo: "lab/run", token: ALICE });
    const operations = [remove("a.txt"), put("b.txt", "b")];
    const request = { parent: "0".repeat(40), message: "one", operations };
    expect([status, await problemOf(transport.commit(request))]).toEqual([status, "invalid"]);
    expect(await problemOf(transport.create())).toBe("invalid");
  }
  expect(other.seen).toEqual([]);
});

test("security: redirects without an end are given up", async () => {
  const hub = await serve((_request, response) => response.writeHead(302, { Location: "/again" }).end());
  const transport = new HubTransport({ endpoint: hub.endpoint, repo: "lab/run", ...once });
  expect(await problemOf(transport.head())).toBe("invalid");
  expect(hub.seen).toHaveLength(6);
});
