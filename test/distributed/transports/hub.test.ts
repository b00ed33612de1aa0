// The connector to hubs, against the hub server of this package on a real socket.

import { getEventListeners } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, test } from "vitest";
import type { FileContent } from "../../../src/distributed/transports/contract.js";
import { resolveHub } from "../../../src/distributed/transports/endpoint.js";
import { TransportError } from "../../../src/distributed/transports/errors.js";
import { HubTransport } from "../../../src/distributed/transports/hub.js";
import { createHubServer, type RequestLogEntry } from "../../../src/hub-server/index.js";
import { ALICE, READER, scratch, writeTokens } from "../../hub-server/harness.js";

const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function serve() {
  const log: RequestLogEntry[] = [];
  const tokenFile = writeTokens(scratch());
  const server = await createHubServer({
    root: scratch(),
    port: 0,
    tokenFile,
    onRequest: (entry) => log.push(entry),
  });
  closers.push(() => server.close());
  const endpoint = await server.listen();
  const connect = (token: string | undefined = ALICE, repo = "lab/run") => {
    const transport = new HubTransport({ endpoint, repo, token });
    closers.push(() => transport.close());
    return transport;
  };
  return { endpoint, connect, log };
}

function content(text: string | Uint8Array): FileContent {
  const bytes = typeof text === "string" ? new TextEncoder().encode(text) : text;
  return {
    sizeBytes: bytes.byteLength,
    chunks: async function* () {
      yield bytes;
    },
  };
}

const put = (path: string, text: string | Uint8Array) => ({
  kind: "put" as const,
  path,
  content: content(text),
});
const problemOf = async (work: Promise<unknown>) => {
  const error = await work.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  return error instanceof TransportError ? error.problem : error;
};

test("a repository is made once, private, and starts with a head", async () => {
  const { connect } = await serve();
  expect(await connect().create()).toEqual({ created: true, isPublic: false });
  expect(await connect().create()).toEqual({ created: false, isPublic: false });
  expect(await connect().head()).toMatch(/^[0-9a-f]{40}/);
});

test("calls leave nothing behind on a signal that outlives them", async () => {
  const { connect } = await serve();
  const { signal } = new AbortController();
  const hub = connect();
  await hub.create({ signal });
  const parent = await hub.head({ signal });
  const request = { parent, message: "a file", operations: [put("a.txt", "a")] };
  const revision = await hub.commit(request, { signal });
  expect(await problemOf(hub.commit(request, { signal }))).toBe("conflict");
  await hub.list(revision, "", { signal });
  await hub.read(revision, "a.txt", 100, { signal });
  expect(getEventListeners(signal, "abort")).toEqual([]);
});

test("one commit puts and deletes several files; old revisions stay readable", async () => {
  const { connect } = await serve();
  const hub = connect();
  await hub.create();
  const empty = await hub.head();
  const large = new Uint8Array(300_000).map((_, i) => i % 251);
  const first = await hub.commit({
    parent: empty,
    message: "two files",
    operations: [put("global/a.json", "{}"), put("nodes/n/delta_1.safetensors", large)],
  });
  const second = await hub.commit({
    parent: first,
    message: "one goes, one comes",
    operations: [
      { kind: "delete", path: "global/a.json" },
      { kind: "delete", path: "global/never-there.json" },
      put("global/b.json", "[1]"),
    ],
  });
  expect(await hub.head()).toBe(second);
  const listed = await hub.list(second, "global/");
  expect(listed.map(({ path, sizeBytes }) => ({ path, sizeBytes }))).toEqual([
    { path: "global/b.json", sizeBytes: 3 },
  ]);
  expect(new TextDecoder().decode(await hub.read(first, "global/a.json", 100))).toBe("{}");
  expect(await hub.read(second, "global/a.json", 100)).toBeUndefined();
  expect(await problemOf(hub.read(second, "global/b.json", 2))).toBe("invalid");
  const source = await hub.open(first, "nodes/n/delta_1.safetensors");
  expect(source.sizeBytes).toBe(300_000);
  expect(await source.read(250_000, 10)).toEqual(large.slice(250_000, 250_010));
  await source.close?.();
});

test("a head that moved is a conflict, and nothing of the commit is there", async () => {
  const { connect } = await serve();
  const [a, b] = [connect(), connect()];
  await a.create();
  const parent = await a.head();
  const moved = await a.commit({ parent, message: "first", operations: [put("a.txt", "a")] });
  expect(await problemOf(b.commit({ parent, message: "late", operations: [put("b.txt", "b")] }))).toBe(
    "conflict",
  );
  expect((await b.list(moved, "")).map(({ path }) => path)).not.toContain("b.txt");
  expect(await b.head()).toBe(moved);
});

test("L-75: an idle poll is one request, answered with 304", async () => {
  const { connect, log } = await serve();
  const hub = connect();
  await hub.create();
  const known = await hub.head();
  log.length = 0;
  expect(await hub.head({ known })).toBe(known);
  expect(log.map(({ status }) => status)).toEqual([304]);
});

test("wrong tokens, missing repositories and odd paths are named", async () => {
  const { connect } = await serve();
  const hub = connect();
  await hub.create();
  const parent = await hub.head();
  const request = { parent, message: "no", operations: [put("a.txt", "a")] };
  expect(await problemOf(connect(READER).commit(request))).toBe("denied");
  expect(await problemOf(connect(ALICE, "lab/none").head())).toBe("not_found");
  expect(await problemOf(hub.read(parent, "../secret", 10))).toBe("invalid");
});

/** A server that answers everything as told and keeps what it was asked. */
async function fakeServer(answer: { status: number; headers?: Record<string, string>; body?: string }) {
  const seen: { url: string; authorization: string | undefined }[] = [];
  const server = createServer((request, response) => {
    seen.push({ url: request.url!, authorization: request.headers.authorization });
    request.resume();
    response.writeHead(answer.status, answer.headers).end(answer.body ?? "");
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

test("a throttled request says when to come back", async () => {
  const { endpoint } = await fakeServer({ status: 429, headers: { "Retry-After": "7" } });
  const error = await new HubTransport({ endpoint, repo: "lab/run", token: ALICE })
    .head()
    .catch((e: unknown) => e);
  expect(error).toMatchObject({ problem: "throttled", retryAfterMs: 7000, isTransient: true });
});

test("an overloaded hub is unavailable, and a refused token denied", async () => {
  const busy = await fakeServer({ status: 503 });
  expect(await problemOf(new HubTransport({ endpoint: busy.endpoint, repo: "lab/run" }).head())).toBe(
    "unavailable",
  );
  const closed = await fakeServer({ status: 401 });
  expect(await problemOf(new HubTransport({ endpoint: closed.endpoint, repo: "lab/run" }).head())).toBe(
    "denied",
  );
});

test("security: no token follows a redirect to another origin", async () => {
  const other = await fakeServer({ status: 200, body: "{}" });
  const hub = await fakeServer({ status: 302, headers: { Location: `${other.endpoint}/elsewhere` } });
  const transport = new HubTransport({ endpoint: hub.endpoint, repo: "lab/run", token: ALICE });
  await transport.read("0".repeat(40), "global/step_count.json", 1000).catch(() => undefined);
  expect(hub.seen[0]?.authorization).toBe(`Bearer ${ALICE}`);
  expect(other.seen.length).toBeGreaterThan(0);
  expect(other.seen.map(({ authorization }) => authorization)).toEqual(other.seen.map(() => undefined));
});

test("security: a token goes to the host that it was set for", () => {
  const at = "http://127.0.0.1:9";
  expect(resolveHub({ env: { HF_ENDPOINT: at, HF_TOKEN: ALICE } })).toMatchObject({
    endpoint: at,
    token: ALICE,
  });
  const fromFile = resolveHub({ endpointKey: at, env: { HF_TOKEN: ALICE } });
  expect(fromFile).toMatchObject({ endpoint: at, token: undefined });
  expect(fromFile.withheld).toContain("HF_TOKEN");
  expect(resolveHub({ env: { HF_TOKEN: ALICE } })).toMatchObject({
    endpoint: "https://huggingface.co",
    token: ALICE,
  });
  expect(resolveHub({ tokenKey: ALICE, env: { HF_ENDPOINT: at } }).token).toBeUndefined();
});
