// Whom a token is shown to, and where it must never stand. A token is for the host that it was set for.

import { readdirSync, readFileSync, statSync } from "node:fs";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterEach, describe, expect, it, test, vi } from "vitest";
import { OFFICIAL_HUB, resolveHub } from "../../src/distributed/transports/endpoint.js";
import { HubTransport } from "../../src/distributed/transports/hub.js";
import { formatLogEntry } from "../../src/hub-server/http/request-log.js";
import { startHub } from "../cli/fleet.js";
import { sampleText, scratchFolder, writeTinyConfig } from "../cli/harness.js";
import { put } from "../distributed/transports/content.js";
import { ALICE, BOB, scratch, sha256, writeTokens } from "../hub-server/harness.js";

const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

describe("security: a token goes only to the host that it was set for", () => {
  const ours = "http://10.0.0.5:8123";
  const other = "http://10.0.0.6:8123";
  it.each([
    // HF_TOKEN, HF_ENDPOINT, distributed.token, distributed.endpoint → where to, which token
    [{ env: { HF_TOKEN: ALICE } }, OFFICIAL_HUB, ALICE],
    [{ env: { HF_TOKEN: ALICE, HF_ENDPOINT: ours } }, ours, ALICE],
    [{ env: { HF_TOKEN: ALICE, HF_ENDPOINT: `${ours}/` } }, ours, ALICE],
    [{ env: { HF_TOKEN: ALICE }, endpointKey: ours }, ours, undefined],
    [{ env: { HF_TOKEN: ALICE }, endpointKey: OFFICIAL_HUB }, OFFICIAL_HUB, ALICE],
    [{ env: { HF_TOKEN: ALICE }, endpointKey: "http://huggingface.co" }, "http://huggingface.co", undefined],
    [
      { env: { HF_TOKEN: ALICE }, endpointKey: "https://huggingface.co.evil.example" },
      "https://huggingface.co.evil.example",
      undefined,
    ],
    [{ env: { HF_TOKEN: ALICE, HF_ENDPOINT: ours }, endpointKey: other }, other, undefined],
    [{ env: { HF_TOKEN: ALICE, HF_ENDPOINT: ours }, endpointKey: ours }, ours, ALICE],
    [{ env: { HF_ENDPOINT: ours }, tokenKey: BOB }, ours, undefined],
    [{ env: {}, tokenKey: BOB }, OFFICIAL_HUB, BOB],
    [{ env: {}, tokenKey: BOB, endpointKey: ours }, ours, BOB],
    [{ env: { HF_TOKEN: ALICE, HF_ENDPOINT: ours }, tokenKey: BOB, endpointKey: other }, other, BOB],
    // The one in the configuration is meant; where it may not go, the other one does not go instead.
    [{ env: { HF_TOKEN: ALICE, HF_ENDPOINT: ours }, tokenKey: BOB }, ours, undefined],
  ])("%j", (settings, endpoint, token) => {
    const found = resolveHub(settings);
    expect([found.endpoint, found.token]).toEqual([endpoint, token]);
    expect(found.withheld === undefined).toBe(token !== undefined);
    expect(found.withheld ?? "is not sent to").toContain("is not sent to");
    expect(`${found.withheld}`).not.toMatch(/hf_/);
  });

  it.each(["http://user:secret@10.0.0.5", "https://secret@huggingface.co", "ftp://x", "nonsense"])(
    "an endpoint that is none is refused, and a password in it is not repeated: %s",
    (endpointKey) => {
      expect(() => resolveHub({ endpointKey, env: { HF_TOKEN: ALICE } })).toThrow(/distributed\.endpoint/);
      expect(() => resolveHub({ endpointKey, env: { HF_TOKEN: ALICE } })).not.toThrow(/secret/);
    },
  );

  it("what is no hub's token is not sent, and not repeated", () => {
    expect(() => resolveHub({ tokenKey: "ghp_secret", env: {} })).toThrow("begin with hf_");
    expect(() => resolveHub({ tokenKey: "ghp_secret", env: {} })).not.toThrow(/ghp_secret/);
    expect(() => resolveHub({ env: { HF_TOKEN: "hf_a\r\nX-Evil: 1" } })).toThrow("HF_TOKEN");
  });
});

/** Keeps what it is asked; answers by path, a redirect where it begins with an address. */
async function listen(answers: Readonly<Record<string, string>>) {
  const seen: { line: string; headers: IncomingHttpHeaders }[] = [];
  const server = createServer((request, response) => {
    seen.push({ line: `${request.method} ${request.url}`, headers: request.headers });
    request.resume();
    const answer = Object.entries(answers).find(([part]) => request.url!.includes(part))?.[1];
    if (answer === undefined) response.writeHead(404, { "X-Error-Code": "EntryNotFound" }).end();
    else if (/^https?:/.test(answer)) response.writeHead(307, { Location: answer }).end();
    else
      response
        .writeHead(200, { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(answer) })
        .end(answer);
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

describe("security: no token crosses origins", () => {
  const revision = "0".repeat(40);
  it("on a redirect; the reading goes on without it", async () => {
    const store = await listen({ "/there": "{}" });
    const first = await listen({ "/resolve/": `${store.endpoint}/there` });
    const transport = new HubTransport({ endpoint: first.endpoint, repo: "lab/run", token: ALICE });
    expect(new TextDecoder().decode(await transport.read(revision, "a.json", 100))).toBe("{}");
    expect(first.seen.map(({ headers }) => headers.authorization)).toEqual([`Bearer ${ALICE}`]);
    expect(store.seen.map(({ headers }) => headers.authorization)).toEqual([undefined]);
  });

  it("a commit that is sent elsewhere is refused before anything goes there", async () => {
    const elsewhere = await listen({ "/": "{}" });
    const hub = await listen({
      "/preupload/": `${elsewhere.endpoint}/x`,
      "/commit/": `${elsewhere.endpoint}/x`,
    });
    const transport = new HubTransport({ endpoint: hub.endpoint, repo: "lab/run", token: ALICE });
    const error = await transport
      .commit({ parent: revision, message: "m", operations: [put("a.txt", "a")] })
      .catch((e: unknown) => e);
    expect(error).toMatchObject({
      problem: "invalid",
      message: expect.stringContaining("redirects a change"),
    });
    expect(elsewhere.seen).toEqual([]);
  });

  it("an upload address on another host gets the bytes and no token", async () => {
    const store = await listen({ "/bytes": "" });
    const content = "x".repeat(20);
    const hub = await listen({
      "/preupload/": JSON.stringify({ files: [{ path: "a.bin", uploadMode: "lfs", shouldIgnore: false }] }),
      "/objects/batch": JSON.stringify({
        transfer: "basic",
        objects: [
          {
            oid: sha256(content),
            size: 20,
            actions: { upload: { href: `${store.endpoint}/bytes?sig=secret` } },
          },
        ],
      }),
    });
    const transport = new HubTransport({ endpoint: hub.endpoint, repo: "lab/run", token: ALICE });
    const error = await transport
      .commit({ parent: revision, message: "m", operations: [put("a.bin", content)] })
      .catch((e: unknown) => e);
    expect(store.seen.map(({ line, headers }) => [line, headers.authorization])).toEqual([
      ["PUT /bytes?sig=secret", undefined],
    ]);

    expect(String(error)).not.toMatch(/secret|hf_/);
  });

  it("the next page of a listing on another host is asked for without one", async () => {
    const other = await listen({ "/": "[]" });
    const server = createServer((_, response) => {
      response.writeHead(200, {
        "Content-Type": "application/json",
        Link: `<${other.endpoint}/next>; rel="next"`,
      });
      response.end("[]");
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    closers.push(() => new Promise((resolve) => server.close(resolve)));
    const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const transport = new HubTransport({ endpoint, repo: "lab/run", token: ALICE });
    await transport.list(revision, "nodes/");
    server.closeAllConnections();
    expect(other.seen.map(({ headers }) => headers.authorization)).toEqual([undefined]);
  });

  it("what a hub says of an error is repeated without secrets", async () => {
    const server = createServer((_, response) => {
      response.writeHead(403, { "Content-Type": "application/json" });
      response.end(JSON.stringify({ error: `no: Bearer ${ALICE} at https://u:pw@h/x?sig=abc` }));
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    closers.push(() => new Promise((resolve) => server.close(resolve)));
    const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const error = await new HubTransport({ endpoint, repo: "lab/run", token: ALICE })
      .head()
      .catch((e: unknown) => e);
    server.closeAllConnections();
    expect(error).toMatchObject({ problem: "denied" });
    expect(String(error)).not.toMatch(/aaaa|pw@|sig=abc/);
  });
});

function filesBelow(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .map((name) => join(folder, name))
    .filter((path) => statSync(path).isFile());
}

test("security: a whole run leaves no token in its files, logs, events, output and repository", async () => {
  const log: string[] = [];
  const hub = await startHub({
    tokenFile: writeTokens(scratch()),
    onRequest: (entry) => log.push(formatLogEntry(entry)),
  });
  // Training reads the process's environment, the other commands that of the call.
  vi.stubEnv("HF_TOKEN", ALICE);
  const env = { HF_TOKEN: ALICE };
  const folder = scratchFolder();
  const file = writeTinyConfig(
    folder,
    sampleText,
    `logging: {file: ${join(folder, "run.log")}, json_file: ${join(folder, "run.jsonl")}}
distributed: {repo_id: lab/run, token: ${BOB}, endpoint: "${hub.endpoint}", inner_steps: 2, poll_interval: 0.05}
`,
  );
  const results = [
    // With the token of the configuration, which may not write here: refused, without repeating it.
    await hub.cli(["init", "lab/run", "--config", file], { env }),
    await hub.cli(["init", "lab/run", "--config", file, "--set", `distributed.token=${ALICE}`], { env }),
    await hub.cli(["aggregate", "--config", file, "--set", `distributed.token=${ALICE}`, "--drain"], { env }),
    await hub.cli(
      [
        "join",
        "lab/run",
        "--data",
        join(folder, "train.txt"),
        "--output-dir",
        join(folder, "node"),
        "--max-steps",
        "4",
      ],
      { env },
    ),
    await hub.cli(["validate", "--config", file, "--print"], { env }),
    await hub.cli(["status", "lab/run", "--json"], { env }),
  ];
  expect(results.map(({ code }) => code).slice(1, 4)).toEqual([0, 0, 0]);
  expect(results[0]!.code).not.toBe(0);
  const secrets = new RegExp(`${ALICE}|${BOB}`);
  for (const { out, err } of results) expect(out + err).not.toMatch(secrets);
  expect(log.join("")).toContain("/api/models/lab/run/commit/main 200");
  expect(log.join("")).not.toMatch(/hf_|sig=|Bearer/);
  const written = [...filesBelow(folder), ...filesBelow(hub.root)].filter((path) => path !== file);
  expect(written.some((path) => path.endsWith("run.jsonl"))).toBe(true);
  const leaking = written.filter((path) => secrets.test(readFileSync(path, "latin1")));
  expect(leaking).toEqual([]);
});
