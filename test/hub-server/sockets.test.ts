// What only shows with real connections: exact headers, broken uploads, large refusals, stopping, TLS.

import { execFileSync, spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { request as httpRequest, type IncomingMessage } from "node:http";
import { request as httpsRequest } from "node:https";
import { connect } from "node:net";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { file, openHub, openHubWithRepo, scratch, sha256, type TestHub } from "./harness.js";

const header = `${JSON.stringify({ key: "header", value: { summary: "s" } })}\n`;

async function until(isDone: () => boolean): Promise<void> {
  const deadline = performance.now() + 10_000;
  while (!isDone()) {
    if (performance.now() > deadline) throw new Error("it did not happen within 10 s");
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** A PUT address for these bytes under the real endpoint. */
async function uploadAddress(endpoint: string, content: Uint8Array): Promise<string> {
  const answer = await fetch(`${endpoint}/lab/run.git/info/lfs/objects/batch`, {
    method: "POST",
    body: JSON.stringify({
      operation: "upload",
      objects: [{ oid: sha256(content), size: content.byteLength }],
    }),
  });
  return ((await answer.json()) as { objects: { actions: { upload: { href: string } } }[] }).objects[0]!
    .actions.upload.href;
}

describe("over a socket", () => {
  it("HEAD has the exact length and no body; GET has the same headers", async () => {
    const hub = await openHubWithRepo();
    await hub.commit("lab/run", [file("a", "x".repeat(100_000)), file("empty", "")]);
    const endpoint = await hub.server.listen();
    for (const [path, length] of [
      ["a", "100000"],
      ["empty", "0"],
    ]) {
      const [head, get] = await Promise.all(
        ["HEAD", "GET"].map((method) => fetch(`${endpoint}/lab/run/resolve/main/${path}`, { method })),
      );
      const [headText, getText] = [await head!.text(), await get!.text()];
      expect([headText, getText.length, head!.headers.get("content-length")]).toEqual([
        "",
        Number(length),
        length,
      ]);
      for (const name of ["content-length", "etag", "x-repo-commit", "accept-ranges", "content-type"])
        expect(get!.headers.get(name), name).toBe(head!.headers.get(name));
    }
    const missing = await fetch(`${endpoint}/lab/run/resolve/main/none`, { method: "HEAD" });
    expect([missing.status, missing.headers.get("x-error-code")]).toEqual([404, "EntryNotFound"]);
  });

  it("addresses in answers are those of the client's host, or the public one", async () => {
    const create = async (endpoint: string) => {
      const answer = await fetch(`${endpoint}/api/repos/create`, {
        method: "POST",
        body: JSON.stringify({ organization: "lab", name: "run" }),
      });
      return ((await answer.json()) as { url: string }).url;
    };
    const direct = await (await openHub()).server.listen();
    expect(await create(direct.replace("127.0.0.1", "localhost"))).toBe(
      `${direct.replace("127.0.0.1", "localhost")}/lab/run`,
    );
    const proxied = await (await openHub({ publicUrl: "https://hub.example/" })).server.listen();
    expect(await create(proxied)).toBe("https://hub.example/lab/run");
    await expect(openHub({ publicUrl: "https://hub.example/path" })).rejects.toThrow(/without a path/);
  });

  it("a large file goes up and comes down unchanged, whole and in parts", async () => {
    const hub = await openHubWithRepo();
    const endpoint = await hub.server.listen();
    const content = randomBytes(12 * 2 ** 20 + 7);
    const put = await fetch(await uploadAddress(endpoint, content), { method: "PUT", body: content });
    expect([put.status, put.headers.get("etag")]).toEqual([200, `"${sha256(content)}"`]);
    const line = {
      key: "lfsFile",
      value: { path: "w", algo: "sha256", oid: sha256(content), size: content.byteLength },
    };
    await hub.commit("lab/run", [line, file("inline", content)]);
    for (const path of ["w", "inline"]) {
      const address = `${endpoint}/lab/run/resolve/main/${path}`;
      const whole = Buffer.from(await (await fetch(address)).arrayBuffer());
      expect(whole.equals(content)).toBe(true);
      const rest = await fetch(address, { headers: { Range: "bytes=5000000-" } });
      expect(rest.status).toBe(206);
      expect(Buffer.from(await rest.arrayBuffer()).equals(content.subarray(5_000_000))).toBe(true);
    }
  });

  it("a broken upload leaves nothing and can be sent again", async () => {
    const hub = await openHubWithRepo();
    const endpoint = new URL(await hub.server.listen());
    const content = randomBytes(3_000_000);
    const target = new URL(await uploadAddress(endpoint.origin, content));
    const requests = [
      `PUT ${target.pathname}${target.search} HTTP/1.1\r\nHost: ${target.host}\r\nContent-Length: 3000000\r\n\r\n`,
      `POST /api/models/lab/run/commit/main HTTP/1.1\r\nHost: ${target.host}\r\nContent-Length: 9000000\r\n\r\n${header}{"key":"file","value":{"path":"a","content":"`,
    ];
    for (const head of requests) {
      const socket = connect(Number(endpoint.port), "127.0.0.1");
      socket.on("error", () => undefined);
      socket.write(head);
      socket.write(head.startsWith("PUT") ? content.subarray(0, 1_000_000) : "A".repeat(2_000_000));
      await until(() => hub.leftovers().length === 1);
      socket.destroy();
      await until(() => hub.leftovers().length === 0);
    }
    expect((await fetch(target, { method: "PUT", body: content })).status).toBe(200);
    expect(await hub.files("lab/run")).toEqual([]);
  });

  it("a stalled upload is given up", async () => {
    const hub = await openHubWithRepo({ limits: { stallTimeoutMs: 150 } });
    const endpoint = new URL(await hub.server.listen());
    const socket = connect(Number(endpoint.port), "127.0.0.1");
    socket.on("error", () => undefined);
    const closed = new Promise((resolve) => socket.once("close", resolve));
    socket.write(
      `POST /api/models/lab/run/commit/main HTTP/1.1\r\nHost: x.localhost\r\nContent-Length: 9000\r\n\r\n${header}{"key":"file","value":{"content":"AAAA`,
    );
    socket.resume();
    await closed;
    await until(() => hub.leftovers().length === 0);
    expect(await hub.files("lab/run")).toEqual([]);
  });

  it("a body that is too large gets its answer, announced or not", async () => {
    const hub = await openHubWithRepo({
      limits: { maxCommitBytes: 1_000_000, maxInlineFileBytes: 10_000_000 },
    });
    const endpoint = await hub.server.listen();
    const address = `${endpoint}/api/models/lab/run/commit/main`;
    const body = Buffer.concat([
      Buffer.from(header),
      Buffer.from(JSON.stringify(file("a", "x".repeat(3_000_000)))),
    ]);
    const announced = await fetch(address, { method: "POST", body });
    expect([announced.status, announced.headers.get("x-error-code")]).toEqual([413, "TooLarge"]);
    const answer = await new Promise<IncomingMessage>((resolve, reject) => {
      const outgoing = httpRequest(address, { method: "POST" }, resolve).on("error", reject);
      // Without a length: in chunks.
      outgoing.write(body.subarray(0, 2_000_000));
      outgoing.end(body.subarray(2_000_000));
    });
    answer.resume();
    expect(answer.statusCode).toBe(413);
    expect(hub.leftovers()).toEqual([]);
    expect(await hub.files("lab/run")).toEqual([]);
  });

  it("a client that leaves in the middle of a download does no harm", async () => {
    const hub = await openHubWithRepo();
    await hub.commit("lab/run", [file("w", randomBytes(20_000_000))]);
    const endpoint = await hub.server.listen();
    for (let time = 0; time < 5; time++) {
      const abort = new AbortController();
      const answer = await fetch(`${endpoint}/lab/run/resolve/main/w`, { signal: abort.signal });
      await answer.body!.getReader().read();
      abort.abort();
    }
    expect((await fetch(`${endpoint}/lab/run/resolve/main/w`, { method: "HEAD" })).status).toBe(200);
  });
});

describe("two clients", () => {
  it("that commit at once: one wins, the other gets 412", async () => {
    const hub = await openHubWithRepo();
    const endpoint = await hub.server.listen();
    for (let round = 0; round < 5; round++) {
      const parentCommit = await hub.head("lab/run");
      const statuses = await Promise.all(
        ["a", "b"].map(async (name) => {
          const lines = [
            { key: "header", value: { summary: name, parentCommit } },
            file("who", `${name}${round}`),
          ];
          const body = lines.map((line) => JSON.stringify(line)).join("\n");
          return (await fetch(`${endpoint}/api/models/lab/run/commit/main`, { method: "POST", body })).status;
        }),
      );
      expect(statuses.sort()).toEqual([200, 412]);
    }
    expect((await hub.ask("/api/models/lab/run/commits/main")).json).toHaveLength(6);
  });
});

describe("stopping", () => {
  it("finishes what is under way, takes nothing new, and frees folder and port", async () => {
    const hub = await openHubWithRepo();
    const endpoint = await hub.server.listen();
    await fetch(`${endpoint}/api/whoami-v2`);
    const text = header + JSON.stringify(file("a", "last"));
    const answer = new Promise<IncomingMessage>((resolve, reject) => {
      const outgoing = httpRequest(
        `${endpoint}/api/models/lab/run/commit/main`,
        { method: "POST", headers: { "Content-Length": Buffer.byteLength(text) } },
        resolve,
      ).on("error", reject);
      outgoing.write(text.slice(0, 80));
      setTimeout(() => outgoing.end(text.slice(80)), 300);
    });
    await new Promise((resolve) => setTimeout(resolve, 100));
    const closed = hub.server.close();
    const refused = fetch(`${endpoint}/api/whoami-v2`).then(
      () => "answered",
      () => "refused",
    );
    expect(await refused).toBe("refused");
    expect((await answer).statusCode).toBe(200);
    (await answer).resume();
    await closed;
    const again: TestHub = await openHub({ root: hub.root, port: Number(new URL(endpoint).port) });
    await again.server.listen();
    expect(await again.files("lab/run")).toEqual(["a"]);
  });

  it("does not wait for ever", async () => {
    const hub = await openHubWithRepo();
    const endpoint = new URL(await hub.server.listen());
    const socket = connect(Number(endpoint.port), "127.0.0.1");
    socket.on("error", () => undefined);
    socket.write(
      "POST /api/models/lab/run/commit/main HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n",
    );
    await new Promise((resolve) => setTimeout(resolve, 100));
    const startedMs = performance.now();
    await hub.server.close({ graceMs: 100 });
    expect(performance.now() - startedMs).toBeLessThan(5000);
  });
});

/** Makes the certificate. */
const tool = "openssl";
const hasTool = spawnSync(tool, ["version"]).status === 0;

describe("TLS", () => {
  it.runIf(hasTool)("is spoken with the given certificate, and addresses say https", async () => {
    const folder = scratch();
    const [key, cert] = [join(folder, "key.pem"), join(folder, "cert.pem")];
    const subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"];
    execFileSync(
      tool,
      [
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "1",
        "-keyout",
        key,
        "-out",
        cert,
        ...subject,
      ],
      { stdio: "ignore" },
    );
    const hub = await openHub({ tls: { key: readFileSync(key), cert: readFileSync(cert) } });
    const endpoint = await hub.server.listen();
    expect(endpoint).toMatch(/^https:\/\/127\.0\.0\.1:/);
    const text = await new Promise<string>((resolve, reject) => {
      const outgoing = httpsRequest(
        `${endpoint}/api/repos/create`,
        { method: "POST", ca: readFileSync(cert) },
        async (answer) => {
          const chunks: Buffer[] = [];
          for await (const chunk of answer) chunks.push(chunk as Buffer);
          resolve(Buffer.concat(chunks).toString());
        },
      );
      outgoing.on("error", reject).end('{"name":"run","organization":"lab"}');
    });
    expect(JSON.parse(text).url).toBe(`${endpoint}/lab/run`);
  });
});
