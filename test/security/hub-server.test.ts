// What strangers and careless clients can send to a hub over a socket: each is refused with words, and nothing of it
// stays. More in test/hub-server: paths, limits, access.

import { readdirSync, readFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { checkHubStore } from "../../src/hub-server/index.js";
import { ALICE, openHub, READER, scratch, sha256, type TestHub, writeTokens } from "../hub-server/harness.js";

async function openListening() {
  const root = join(scratch(), "hub");
  const hub = await openHub({ root, tokenFile: writeTokens(scratch()) });
  const endpoint = await hub.server.listen();
  await hub.create("lab/run", { token: ALICE, isPrivate: true });
  return { hub, port: Number(new URL(endpoint).port) };
}

/** Sends bytes as they are, and goes on with `piece` for as long as the hub takes it. Gives the answer's text. */
function send(port: number, text: string, piece?: string): Promise<{ answer: string; sentBytes: number }> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    let answer = "";
    let isOver = false;
    socket.on("data", (data) => {
      answer += data.toString("latin1");
      if (piece !== undefined) socket.destroy();
    });
    socket.on("error", () => undefined);
    socket.on("close", () => {
      isOver = true;
      resolve({ answer, sentBytes: socket.bytesWritten });
    });
    socket.write(text);
    if (piece === undefined) return;
    const chunk = `${piece.length.toString(16)}\r\n${piece}\r\n`;
    const pump = () => {
      while (!isOver) if (!socket.write(chunk)) return void socket.once("drain", pump);
    };
    pump();
  });
}

const request = (line: string, body = "", token = ALICE) =>
  `${line} HTTP/1.1\r\nHost: hub\r\nAuthorization: Bearer ${token}\r\nConnection: close\r\n` +
  `Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
const statusOf = (answer: string) => Number(/^HTTP\/1\.1 ([0-9]+)/.exec(answer)?.[1]);
const errorOf = (answer: string): string => JSON.parse(/\r\n\r\n(\{.*\})/s.exec(answer)![1]!).error;

async function expectUntouched(hub: TestHub): Promise<void> {
  expect(hub.leftovers()).toEqual([]);
  expect(await checkHubStore(hub.root)).toMatchObject({
    repositories: 1,
    commits: 1,
    blobs: 0,
    problems: [],
  });
}

describe("security: paths that lead out of a repository", () => {
  it.each([
    ["/lab/run/resolve/main/..%2f..%2fupload-key", 400, "part '..'"],
    ["/lab/run/resolve/main/..%2F..%2F..%2Fetc%2Fpasswd", 400, "part '..'"],
    ["/lab/run/resolve/main/%2e%2e/%2e%2e/upload-key", 404, "nothing here answers"],
    ["/lab/run/resolve/main/../../../../upload-key", 404, "nothing here answers"],
    ["/lab/run/resolve/main/..%5c..%5cupload-key", 400, "backslash"],
    ["/lab/run/resolve/main/a%00.json", 400, "control character"],
    ["/lab/run/resolve/main/%zz", 400, "not well encoded"],
    ["/lab/run/resolve/..%2f..%2fupload-key/x", 404, "no revision"],
    ["/api/models/..%2f..%2fx/run", 404, "Repository not found"],
    ["/api/models/lab/run/tree/main/..%2f..", 400, "part '..'"],
    ["/api/models/lab/run/commits/main?cursor=Li4vLi4vdXBsb2FkLWtleQ", 404, "no revision"],
  ])("%s", async (path, status, words) => {
    const { hub, port } = await openListening();
    const { answer } = await send(port, request(`GET ${path}`));
    expect(statusOf(answer)).toBe(status);
    expect(errorOf(answer)).toContain(words);
    expect(answer).not.toContain(readFileSync(join(hub.root, "upload-key"), "utf8").trim());
  });

  it("as a branch, a repository or a file of a new one: nothing is made", async () => {
    const { hub } = await openListening();
    const before = readdirSync(join(hub.root, "repos/models"));
    const refused = [
      await hub.post("/api/models/lab/run/branch/..%2f..%2fx", {}, ALICE),
      await hub.post("/api/repos/create", { organization: "lab", name: ".." }, ALICE),
      await hub.post("/api/repos/create", { organization: "..", name: "x" }, ALICE),
      await hub.post(
        "/api/repos/create",
        { organization: "lab", name: "new", files: [{ path: "../x", content: "eA==", encoding: "base64" }] },
        ALICE,
      ),
    ];
    expect(refused.map(({ status }) => status)).toEqual([400, 400, 400, 400]);
    expect(readdirSync(join(hub.root, "repos/models"))).toEqual(before);
    await expectUntouched(hub);
  });
});

describe("security: JSON that is nested without end", () => {
  const deep = (levels: number) => "[".repeat(levels) + "]".repeat(levels);
  const header = `{"key":"header","value":{"summary":"s"}}\n`;
  it.each([
    ["POST /api/repos/create", `{"name":"x","type":${deep(50_000)}}`],
    ["POST /api/repos/create", `{"name":"lab/x","files":[${deep(50_000)}]}`],
    ["DELETE /api/repos/delete", `{"name":${deep(50_000)}}`],
    ["POST /api/models/lab/run/preupload/main", `{"files":${deep(3_000_000)}}`],
    ["POST /api/models/lab/run/paths-info/main", `{"paths":${"[".repeat(4_000_000)}`],
    ["POST /api/models/lab/run/commit/main", `${header}{"key":${deep(50_000)},"value":{}}`],
    [
      "POST /api/models/lab/run/commit/main",
      `${header}{"key":"file","value":{"path":"a","encoding":${deep(50_000)}}}`,
    ],
    ["POST /lab/run.git/info/lfs/objects/batch", `{"operation":"upload","objects":[${deep(50_000)}]}`],
  ])("%s", async (line, body) => {
    const { hub, port } = await openListening();
    const { answer } = await send(port, request(line, body));
    expect(statusOf(answer)).toBe(400);
    expect(errorOf(answer)).toContain("nested more than 32 deep");
    await expectUntouched(hub);
  });

  it("brackets inside of strings are not counted", async () => {
    const { hub } = await openListening();
    const path = `${"[{".repeat(100)}"`;
    const { status } = await hub.commit(
      "lab/run",
      [{ key: "file", value: { path, content: "eA==", encoding: "base64" } }],
      {},
      ALICE,
    );
    expect(status).toBe(200);
  });
});

describe("security: bodies without end", () => {
  const chunked = (line: string, token?: string) =>
    `${line} HTTP/1.1\r\nHost: hub\r\n${token === undefined ? "" : `Authorization: Bearer ${token}\r\n`}` +
    "Transfer-Encoding: chunked\r\n\r\n";

  it.each([
    ["POST /api/repos/create", 401],
    ["DELETE /api/repos/delete", 401],
    ["POST /api/models/lab/run/commit/main", 404],
    ["POST /lab/run.git/info/lfs/objects/batch", 404],
    ["POST /api/validate-yaml", 200],
  ])("of a stranger are not read: %s", async (line, status) => {
    const { hub, port } = await openListening();
    const { answer, sentBytes } = await send(port, chunked(line), "a".repeat(2 ** 16));
    expect(statusOf(answer)).toBe(status);
    // What the two ends of the line hold, not what the hub would take from a client of its own.
    expect(sentBytes).toBeLessThan(12 * 2 ** 20);
    await expectUntouched(hub);
  });

  it.each([
    ["a question", "POST /api/repos/create", "a"],
    ["a line of a commit", "POST /api/models/lab/run/commit/main", "a"],
    ["blank lines", "POST /api/models/lab/run/commit/main", "\n"],
  ])("of a client end with 413: %s", async (_, line, letter) => {
    const { hub, port } = await openListening();
    const { answer } = await send(port, chunked(line, ALICE), letter.repeat(2 ** 16));
    expect(statusOf(answer)).toBe(413);
    expect(errorOf(answer)).toMatch(/has more than/);
    await expectUntouched(hub);
  });

  it("who may only read may not ask as long as who may write", async () => {
    const { hub } = await openListening();
    const body = { paths: ["a".repeat(5 * 2 ** 20)] };
    expect((await hub.post("/api/models/lab/run/paths-info/main", body, READER)).status).toBe(413);
    expect((await hub.post("/api/models/lab/run/paths-info/main", body, ALICE)).status).toBe(400);
  });
});

describe("security: an upload that is not what was announced", () => {
  it.each([
    ["HELLO", 400, "has sha256"],
    ["hello, world", 413, "more than the 5 bytes"],
    ["he", 400, "has 2 of the 5 bytes"],
  ])("%j for hello", async (content, status, words) => {
    const { hub } = await openListening();
    const { json } = await hub.post(
      "/lab/run.git/info/lfs/objects/batch",
      { operation: "upload", objects: [{ oid: sha256("hello"), size: 5 }] },
      ALICE,
    );
    const answer = await hub.ask(json.objects[0].actions.upload.href, { method: "PUT", body: content });
    expect(answer.status).toBe(status);
    expect(answer.json.error).toContain(words);
    const file = { path: "a", algo: "sha256", oid: sha256("hello"), size: 5 };
    expect((await hub.commit("lab/run", [{ key: "lfsFile", value: file }], {}, ALICE)).json.error).toContain(
      "upload it first",
    );
    await expectUntouched(hub);
  });
});

describe("security: requests that two servers could read in two ways", () => {
  it.each([
    "POST /api/validate-yaml HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: x\r\nX: a\0b\r\n\r\n",
    "GET /lab/run/resolve/main/a\0b HTTP/1.1\r\nHost: x\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\nHost : z\r\n\r\n",
    "GE T / HTTP/1.1\r\n\r\n",
  ])("%j", async (text) => {
    const { port } = await openListening();
    const { answer } = await send(port, text);
    expect(statusOf(answer)).toBe(400);
    expect(answer.match(/HTTP\/1\.1 /g)).toHaveLength(1);
  });

  it("two tokens are none", async () => {
    const { port } = await openListening();
    const line = `GET /api/whoami-v2 HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer hf_x\r\nAuthorization: Bearer ${ALICE}\r\n\r\n`;
    expect(statusOf((await send(port, line)).answer)).toBe(401);
  });
});
