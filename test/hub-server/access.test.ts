// Who may do what: tokens, roles, private repositories, upload addresses, web pages, and what the log keeps.

import { chmodSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import {
  addToken,
  createHubServer,
  formatLogEntry,
  type RequestLogEntry,
} from "../../src/hub-server/index.js";
import { ALICE, BOB, file, openHub, READER, scratch, sha256, type TestHub, writeTokens } from "./harness.js";

async function guardedHub(): Promise<TestHub> {
  const hub = await openHub({ tokenFile: writeTokens(scratch()) });
  await hub.create("lab/secret", { token: ALICE, isPrivate: true });
  await hub.create("lab/public", { token: ALICE });
  for (const id of ["lab/secret", "lab/public"]) await hub.commit(id, [file("a", id)], {}, ALICE);
  return hub;
}

const outcome = ({ status, headers }: { status: number; headers: Headers }) => [
  status,
  headers.get("x-error-code"),
];

describe("security: a token", () => {
  it("has a name and a role", async () => {
    const hub = await guardedHub();
    const who = await hub.ask("/api/whoami-v2", { token: READER });
    expect(who.json).toMatchObject({ name: "reader", auth: { accessToken: { role: "read" } } });
    expect(outcome(await hub.ask("/api/whoami-v2"))).toEqual([401, "InvalidCredentials"]);
  });

  it.each([
    `Bearer hf_${"x".repeat(30)}`,
    "Bearer ",
    "Basic abc",
    `Bearer ${ALICE}x`,
    `bearer ${ALICE.slice(0, -1)}`,
    ALICE,
  ])("that is wrong is refused everywhere: %j", async (authorization) => {
    const hub = await guardedHub();
    for (const path of [
      "/api/whoami-v2",
      "/api/models/lab/public",
      "/lab/public/resolve/main/a",
      "/lab/secret/resolve/main/a",
    ]) {
      const answer = await hub.ask(path, { headers: { Authorization: authorization } });
      expect(outcome(answer), path).toEqual([401, "InvalidCredentials"]);
      expect(answer.headers.get("x-error-message")).toBe("Invalid credentials in Authorization header");
    }
  });

  it("signs the commits that are made with it", async () => {
    const hub = await guardedHub();
    const { json } = await hub.ask("/api/models/lab/public/commits/main");
    expect(json[0].authors[0].user).toBe("alice");
  });
});

describe("security: a private repository", () => {
  const paths = [
    "/api/models/lab/NAME",
    "/api/models/lab/NAME/revision/main",
    "/api/models/lab/NAME/tree/main",
    "/api/models/lab/NAME/commits/main",
    "/api/models/lab/NAME/refs",
    "/lab/NAME/resolve/main/a",
    "/lab/NAME/raw/main/a",
  ];
  it.each([
    ["nobody", undefined],
    ["a foreign token", BOB],
  ])("looks missing to %s, to the letter", async (_, token) => {
    const hub = await guardedHub();
    const ask = async (path: string) => {
      const { status, headers, text } = await hub.ask(path, token === undefined ? {} : { token });
      return { status, code: headers.get("x-error-code"), text: text.replaceAll(/secret|absent/g, "NAME") };
    };
    for (const path of paths) {
      const hidden = await ask(path.replace("NAME", "secret"));
      expect(hidden).toEqual(await ask(path.replace("NAME", "absent")));
      expect([hidden.status, hidden.code]).toEqual([404, "RepoNotFound"]);
    }
    const posts: [string, object | string][] = [
      ["/api/models/lab/secret/preupload/main", { files: [] }],
      ["/api/models/lab/secret/commit/main", '{"key":"header","value":{"summary":"s"}}'],
      ["/api/models/lab/secret/paths-info/main", { paths: ["a"] }],
      ["/lab/secret.git/info/lfs/objects/batch", { operation: "upload", objects: [] }],
    ];
    for (const [path, body] of posts)
      expect(outcome(await hub.post(path, body, token)), path).toEqual([404, "RepoNotFound"]);
    const listed = await hub.ask("/api/models", token === undefined ? {} : { token });
    expect(listed.json.map(({ id }: { id: string }) => id)).toEqual(["lab/public"]);
  });

  it("can be read by those it is for", async () => {
    const hub = await guardedHub();
    for (const token of [ALICE, READER]) {
      expect((await hub.ask("/lab/secret/resolve/main/a", { token })).text).toBe("lab/secret");
      expect((await hub.ask("/api/models", { token })).json).toHaveLength(2);
    }
  });
});

describe("security: writing", () => {
  it("needs a token of role write that covers the repository", async () => {
    const hub = await guardedHub();
    const before = (await hub.ask("/api/models/lab/public")).json.sha;
    const attempts = async (token: string | undefined) => [
      outcome(await hub.commit("lab/public", [file("b", "x")], {}, token)),
      outcome(await hub.post("/api/models/lab/public/preupload/main", { files: [] }, token)),
      outcome(
        await hub.post("/lab/public.git/info/lfs/objects/batch", { operation: "upload", objects: [] }, token),
      ),
      outcome(await hub.create("lab/new", token === undefined ? {} : { token })),
      outcome(
        await hub.ask("/api/repos/delete", {
          method: "DELETE",
          body: { organization: "lab", name: "public" },
          ...(token === undefined ? {} : { token }),
        }),
      ),
    ];
    expect(await attempts(undefined)).toEqual(Array(5).fill([401, "InvalidCredentials"]));
    expect(await attempts(READER)).toEqual(Array(5).fill([403, "Forbidden"]));
    expect(await attempts(BOB)).toEqual(Array(5).fill([403, "Forbidden"]));
    expect((await hub.ask("/api/models/lab/public")).json.sha).toBe(before);
    expect((await hub.create("bob/own", { token: BOB })).status).toBe(200);
  });
});

describe("security: an upload address", () => {
  const content = "weights";
  const oid = sha256(content);

  async function granted(): Promise<{ hub: TestHub; href: URL; clock: { ms: number } }> {
    const clock = { ms: Date.parse("2026-01-01T00:00:00Z") };
    const hub = await openHub({ tokenFile: writeTokens(scratch()), now: () => new Date(clock.ms) });
    await hub.create("lab/run", { token: ALICE });
    await hub.create("lab/other", { token: ALICE });
    const body = { operation: "upload", objects: [{ oid, size: content.length }] };
    const { json } = await hub.post("/lab/run.git/info/lfs/objects/batch", body, ALICE);
    return { hub, href: new URL(json.objects[0].actions.upload.href), clock };
  }
  const put = (hub: TestHub, href: URL, body = content) => hub.ask(`${href}`, { method: "PUT", body });

  it("needs no token", async () => {
    const { hub, href } = await granted();
    expect((await put(hub, href)).status).toBe(200);
  });

  it.each(["repo=models/lab/other", "size=8", "exp=9999999999999", "sig=AAAA", "sig="])(
    "is void with %s",
    async (change) => {
      const { hub, href } = await granted();
      const [name, value] = change.split("=") as [string, string];
      href.searchParams.set(name, value);
      expect(outcome(await put(hub, href))).toEqual([403, "Forbidden"]);
    },
  );

  it("is void for other content, later, and for a repository that only has the same name", async () => {
    const { hub, href, clock } = await granted();
    const elsewhere = new URL(href);
    elsewhere.pathname = `/_lfs/${sha256("other")}`;
    expect(outcome(await put(hub, elsewhere, "another"))).toEqual([403, "Forbidden"]);
    expect(outcome(await put(hub, href, "Weights"))).toEqual([400, "InvalidRequest"]);
    expect(outcome(await put(hub, href, "weight"))).toEqual([400, "InvalidRequest"]);
    expect(outcome(await put(hub, href, "weights!"))).toEqual([413, "TooLarge"]);
    clock.ms += 3_600_001;
    expect(outcome(await put(hub, href))).toEqual([403, "Forbidden"]);
    clock.ms = Date.parse("2026-01-01T00:00:00Z");
    await hub.ask("/api/repos/delete", {
      method: "DELETE",
      token: ALICE,
      body: { organization: "lab", name: "run" },
    });
    expect(outcome(await put(hub, href))).toEqual([404, "RepoNotFound"]);
    await hub.create("lab/run", { token: ALICE });
    expect(outcome(await put(hub, href))).toEqual([403, "Forbidden"]);
    expect(hub.leftovers()).toEqual([]);
  });
});

describe("security: the token file", () => {
  const open = async (text: string, mode = 0o600) => {
    const path = join(scratch(), "tokens");
    writeFileSync(path, text);
    chmodSync(path, mode);
    const server = await createHubServer({ root: join(scratch(), "hub"), tokenFile: path });
    return server.close();
  };

  it.each([
    ["", /holds no token/],
    ["# nothing\n", /holds no token/],
    ["alice write\n", /:1: the third word/],
    [`alice write hf_short\n`, /:1: the third word/],
    [`\nalice admin ${ALICE}\n`, /:2: the role is 'admin'/],
    [`a/b write ${ALICE}\n`, /not a name/],
    [`alice write ${ALICE} lab/*,lab\n`, /not a pattern/],
    [`alice write ${ALICE} lab/* more\n`, /one word too many/],
    [`alice write ${ALICE}\nbob read ${ALICE}\n`, /:2: the same token/],
  ])("%j is refused by line", async (text, message) => {
    await expect(open(text)).rejects.toThrow(message);
    await expect(open(text)).rejects.not.toThrow(/hf_[ab]{8}/);
  });

  it.skipIf(process.platform === "win32")(
    "holds tokens in clear only if nobody else can read it",
    async () => {
      await expect(open(`alice write ${ALICE}\n`, 0o644)).rejects.toThrow(/chmod 600/);
      await expect(open(`alice write sha256:${sha256(ALICE)}\n`, 0o644)).resolves.toBeUndefined();
    },
  );

  it("gets new tokens as hashes, with the last line's end put right", async () => {
    const path = join(scratch(), "tokens");
    const first = await addToken(path, "alice", "write", ["lab/*", "x/y"]);
    writeFileSync(path, readFileSync(path, "utf8").trimEnd(), { mode: 0o600 });
    const second = await addToken(path, "bob", "read");
    expect(readFileSync(path, "utf8")).toBe(
      `alice write sha256:${sha256(first)} lab/*,x/y\nbob read sha256:${sha256(second)} *\n`,
    );
    expect(first).toMatch(/^hf_[0-9a-f]{40}$/);
    if (process.platform !== "win32") expect(statSync(path).mode & 0o777).toBe(0o600);
    const hub = await openHub({ tokenFile: path });
    expect((await hub.create("lab/run", { token: first })).status).toBe(200);
    expect((await hub.create("x/yz", { token: first })).status).toBe(403);
    expect((await hub.create("lab/other", { token: second })).status).toBe(403);
    await expect(addToken(path, "a b", "read")).rejects.toThrow(/not a name/);
  });

  it("is needed for any address but this machine's own", async () => {
    const root = join(scratch(), "hub");
    for (const host of ["0.0.0.0", "::", "192.168.0.1", "127.evil.example"])
      await expect(createHubServer({ root, host })).rejects.toThrow(/--token-file/);
  });
});

describe("security: web pages", () => {
  const preflight = (hub: TestHub, origin: string) =>
    hub.ask("/api/models/lab/run/commit/main", {
      method: "OPTIONS",
      headers: { Origin: origin, "Access-Control-Request-Method": "POST" },
    });

  it("of this machine may use a hub without tokens, and no others", async () => {
    const hub = await openHub();
    for (const origin of [
      "http://localhost:5173",
      "http://127.0.0.1",
      "http://[::1]:80",
      "https://app.localhost",
    ]) {
      const { status, headers } = await preflight(hub, origin);
      expect([status, headers.get("access-control-allow-origin")]).toEqual([204, origin]);
      expect(headers.get("access-control-allow-headers")).toMatch(/Authorization.*Range.*If-None-Match/);
      expect(headers.get("access-control-allow-methods")).toMatch(/PUT, DELETE/);
    }
    for (const origin of [
      "https://evil.example",
      "null",
      "http://localhost.evil.example",
      "http://127.0.0.1.evil.example",
    ]) {
      expect(outcome(await preflight(hub, origin))).toEqual([403, "Forbidden"]);
      // A form can post without asking first.
      const post = await hub.ask("/api/repos/create", {
        method: "POST",
        headers: { Origin: origin, "Content-Type": "text/plain" },
        body: { organization: "lab", name: "run" },
      });
      expect(outcome(post)).toEqual([403, "Forbidden"]);
      expect(post.headers.get("access-control-allow-origin")).toBeNull();
    }
    expect((await hub.ask("/api/models")).json).toEqual([]);
  });

  it("cannot reach a hub without tokens under a name of their own", async () => {
    const hub = await openHub();
    expect(outcome(await hub.ask("http://evil.example/api/models"))).toEqual([403, "Forbidden"]);
    const known = await openHub({ publicUrl: "https://hub.example" });
    expect((await known.ask("https://hub.example/api/models")).status).toBe(200);
  });

  it("see the headers of answers and errors of a hub with tokens", async () => {
    const hub = await guardedHub();
    const headers = { Origin: "https://lab.example" };
    for (const path of ["/lab/public/resolve/main/a", "/lab/secret/resolve/main/a"]) {
      const answer = await hub.ask(path, { headers });
      expect(answer.headers.get("access-control-allow-origin")).toBe("https://lab.example");
      expect(answer.headers.get("access-control-expose-headers")).toMatch(
        /X-Repo-Commit.*X-Error-Code.*ETag/,
      );
      expect(answer.headers.get("access-control-allow-credentials")).toBeNull();
    }
  });

  it("can be limited to some", async () => {
    const hub = await openHub({ allowedOrigins: ["https://lab.example"] });
    expect((await preflight(hub, "https://lab.example")).status).toBe(204);
    expect((await preflight(hub, "http://localhost")).status).toBe(403);
  });
});

describe("security: the log", () => {
  it("has one line per request, without tokens, signatures and queries", async () => {
    const entries: RequestLogEntry[] = [];
    const hub = await openHub({
      tokenFile: writeTokens(scratch()),
      onRequest: (entry) => entries.push(entry),
    });
    await hub.create("lab/run", { token: ALICE });
    const body = { operation: "upload", objects: [{ oid: sha256("x"), size: 1 }] };
    const { json } = await hub.post("/lab/run.git/info/lfs/objects/batch", body, ALICE);
    await hub.ask(json.objects[0].actions.upload.href, { method: "PUT", body: "x" });
    await hub.ask("/api/whoami-v2?token=hf_secret", { token: `hf_${"x".repeat(30)}` });
    await hub.ask("/lab/run/resolve/main/%0a%1b[31m");
    const text = entries.map(formatLogEntry).join("");
    expect(entries.map(({ method, path, status, user }) => [method, path, status, user])).toEqual([
      ["POST", "/api/repos/create", 200, "alice"],
      ["POST", "/lab/run.git/info/lfs/objects/batch", 200, "alice"],
      ["PUT", `/_lfs/${sha256("x")}`, 200, "anonymous"],
      ["GET", "/api/whoami-v2", 401, "?"],
      ["GET", "/lab/run/resolve/main/%0a%1b[31m", 400, "anonymous"],
    ]);
    expect(text).not.toMatch(/hf_|sig=|secret/);
    expect(text.split("\n")).toHaveLength(entries.length + 1);
  });
});
