// Downloads in Node: the same answers as by the platform's `fetch`, and what goes wrong on the way.

import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import { HubTransport } from "../../../src/distributed/transports/hub.js";
import { hubFetch, nodeHub } from "../../../src/distributed/transports/hub-fetch.node.js";

const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closers.push(
    () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(resolve);
      }),
  );
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const plain = {
  method: "GET",
  redirect: "manual",
  headers: { "Accept-Encoding": "identity", Range: "bytes=0-9" },
} as const;
const big = Uint8Array.from({ length: 3_000_000 }, (_, i) => (i * 7919) >> 3);

describe("an answer", () => {
  test.each([
    ["with a body", 206, { "Content-Range": "bytes 0-9/10", ETag: '"x"' }, "0123456789"],
    ["of several headers of a name", 200, { "X-Many": ["a", "b"] }, "x"],
    ["that redirects", 302, { Location: "/elsewhere" }, "moved"],
    ["without a body", 204, {}, ""],
    ["that is not modified", 304, { ETag: '"x"' }, ""],
    ["that says no", 404, { "X-Error-Code": "EntryNotFound" }, "no such file"],
  ])("%s is as the platform's fetch has it", async (_, status, headers, body) => {
    const asked: unknown[] = [];
    const address = await serve(({ method, url, headers: sent }, response) => {
      asked.push([method, url, sent.range, sent["accept-encoding"]]);
      response.writeHead(status, { ...headers, Date: "today" }).end(body);
    });
    const facts = async (answer: Response) => ({
      status: answer.status,
      text: answer.statusText,
      headers: [...answer.headers].filter(([name]) => !/^(?:connection|keep-alive)$/.test(name)),
      body: await answer.text(),
      hasBody: answer.body !== null,
    });
    const ours = await facts(await hubFetch(`${address}/a%20b?c=d`, plain));
    expect(ours).toEqual(await facts(await fetch(`${address}/a%20b?c=d`, plain)));
    expect(asked[0]).toEqual(["GET", "/a%20b?c=d", "bytes=0-9", "identity"]);
  });

  test("of megabytes has every byte in its place", async () => {
    const address = await serve((_, response) => void response.end(big));
    const answer = await hubFetch(address, plain);
    expect(Buffer.compare(new Uint8Array(await answer.arrayBuffer()), big)).toBe(0);
  });
});

test("nothing is read ahead of a reader that waits", async () => {
  let sent = 0;
  const address = await serve(function send(_, response) {
    const more = () => {
      while (sent < 200) {
        sent++;
        if (!response.write(big.subarray(0, 1_000_000))) return void response.once("drain", more);
      }
      response.end();
    };
    more();
  });
  const reader = (await hubFetch(address, plain)).body!.getReader();
  expect((await reader.read()).done).toBe(false);
  await new Promise((resolve) => setTimeout(resolve, 100));
  // What the sockets of both ends hold.
  expect(sent).toBeLessThan(100);
  await reader.cancel();
});

test("a reader that leaves ends the request, whatever is under way", async () => {
  let left = 0;
  const address = await serve((_, response) => {
    response.on("close", () => left++);
    const pour = () => {
      while (!response.destroyed && response.write(big)) continue;
      response.once("drain", pour);
    };
    pour();
  });
  for (let i = 0; i < 20; i++) {
    const reader = (await hubFetch(address, plain)).body!.getReader();
    for (let pieces = 0; pieces < i; pieces++) await reader.read();
    // Not awaited: the next piece is on its way already.
    void reader.read().catch(() => undefined);
    await reader.cancel();
  }
  await expect.poll(() => left).toBe(20);
});

test("a body that breaks off is an error, not an end", async () => {
  const address = await serve((_, response) => {
    response.writeHead(200, { "Content-Length": "100" });
    response.write("half", () => response.destroy());
  });
  await expect(hubFetch(address, plain).then((answer) => answer.text())).rejects.toThrow();
});

test("a signal ends the wait for an answer, and a body, with its reason", async () => {
  const address = await serve(({ url }, response) => {
    if (url === "/slow") response.writeHead(200).write("x");
  });
  const reason = new Error("enough");
  for (const path of ["/never", "/slow"]) {
    const stop = new AbortController();
    const answer = hubFetch(address + path, { ...plain, signal: stop.signal });
    if (path === "/slow") await answer;
    stop.abort(reason);
    if (path === "/never") await expect(answer).rejects.toBe(reason);
    else await expect(answer.then((it) => it.text())).rejects.toThrow();
  }
});

test("a connection that the server gave up meanwhile is replaced unseen", async () => {
  let connections = 0;
  const server = createServer((request, response) => {
    response.end("x");
    // As a server does whose patience with quiet connections ends just now.
    if (request.url === "/last") setImmediate(() => request.socket.resetAndDestroy());
  });
  server.on("connection", () => connections++);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closers.push(() => new Promise((resolve) => server.close(resolve)));
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const ask = async (path: string) => (await hubFetch(address + path, plain)).text();
  for (let i = 0; i < 10; i++) {
    expect(await ask("/last")).toBe("x");
    expect(await ask("/again")).toBe("x");
  }
  expect(connections).toBeGreaterThan(1);
});

test("a server that is not there is told as the platform tells it", async () => {
  const error = await hubFetch("http://127.0.0.1:9", plain).catch((it: unknown) => it);
  expect(error).toBeInstanceOf(TypeError);
  expect((error as TypeError).cause).toMatchObject({ code: "ECONNREFUSED" });
});

test("a read goes on where the line broke", async () => {
  let asked = 0;
  const address = await serve(({ headers }, response) => {
    const [, from, to] = /^bytes=(\d+)-(\d+)$/.exec(headers.range ?? "")!.map(Number) as number[];
    const part = big.subarray(from, Math.min(to! + 1, big.byteLength));
    response.writeHead(206, {
      "Content-Range": `bytes ${from}-${from! + part.byteLength - 1}/${big.byteLength}`,
      "Content-Length": part.byteLength,
    });
    if (asked++ % 2 === 0) return void response.end(part);
    response.write(part.subarray(0, part.byteLength >> 1), () => response.destroy());
  });
  const retry = { attempts: 3, sleep: async () => undefined };
  const transport = new HubTransport({ endpoint: address, repo: "lab/run", ...nodeHub, retry });
  const source = await transport.open("main", "big.bin");
  const bytes = await source.read(0, big.byteLength);
  expect(Buffer.compare(bytes, big)).toBe(0);
  expect(asked).toBeGreaterThan(2);
  await transport.close();
});
