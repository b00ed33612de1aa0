// Commits over the API: contents, parents, deletions, LFS, what is refused, and that a refused commit leaves nothing.

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { checkHubStore } from "../../src/hub-server/index.js";
import { commitLfs, file, openHubWithRepo, sha256 } from "./harness.js";

describe("a commit", () => {
  it("answers with its id and an address on the client's host", async () => {
    const hub = await openHubWithRepo();
    const { status, json } = await hub.commit("lab/run", [file("a", "1")], { description: "because" });
    const head = await hub.head("lab/run");
    expect({ status, json }).toEqual({
      status: 200,
      json: {
        success: true,
        commitOid: head,
        commitUrl: `http://localhost/lab/run/commit/${head}`,
        hookOutput: "",
      },
    });
    expect((await hub.ask("/api/models/lab/run/commits/main")).json[0]).toMatchObject({
      id: head,
      title: "a change",
      message: "because",
    });
  });

  it("takes text as it is, with every escape, and base64", async () => {
    const hub = await openHubWithRepo();
    const text = 'quote " slash / back \\ line\n tab\t nul-free \u0001 é € 😀 "content"';
    const body = [
      { key: "header", value: { summary: "s" } },
      { key: "file", value: { path: "plain", content: text } },
      { key: "file", value: { encoding: "utf-8", content: text, path: "named" } },
      file("base64", text),
    ];
    const escaped = `{"key":"file","value":{"content":"${[...text].map((c) => [...c.split("")].map((u) => `\\u${u.charCodeAt(0).toString(16).padStart(4, "0")}`).join("")).join("")}","path":"escaped"}}`;
    const lines = [...body.map((line) => JSON.stringify(line)), escaped];
    expect((await hub.post("/api/models/lab/run/commit/main", lines.join("\n"))).status).toBe(200);
    for (const path of ["plain", "named", "base64", "escaped"])
      expect((await hub.ask(`/lab/run/resolve/main/${path}`)).text, path).toBe(text);
  });

  it("moves the head even if it changes nothing", async () => {
    const hub = await openHubWithRepo();
    await hub.commit("lab/run", [file("a", "1")]);
    const before = await hub.head("lab/run");
    const { json } = await hub.commit("lab/run", [file("a", "1")], { parentCommit: before });
    expect(json.commitOid).not.toBe(before);
    expect(await hub.head("lab/run")).toBe(json.commitOid);
    // The file is still the earlier commit's.
    expect((await hub.ask("/api/models/lab/run/tree/main?expand=true")).json[0].lastCommit.id).toBe(before);
  });

  it("lets later lines win", async () => {
    const hub = await openHubWithRepo();
    await hub.commit("lab/run", [
      file("a", "1"),
      file("a", "2"),
      file("b", "1"),
      { key: "deletedFile", value: { path: "b" } },
      file("d/x", "1"),
      { key: "deletedFolder", value: { path: "d/" } },
      file("d/y", "1"),
    ]);
    expect(await hub.files("lab/run")).toEqual(["a", "d/y"]);
    expect((await hub.ask("/lab/run/resolve/main/a")).text).toBe("2");
  });

  it("keeps earlier revisions readable", async () => {
    const hub = await openHubWithRepo();
    await hub.commit("lab/run", [file("a", "1")]);
    const first = await hub.head("lab/run");
    await hub.commit("lab/run", [{ key: "deletedFile", value: { path: "a" } }]);
    expect((await hub.ask("/lab/run/resolve/main/a")).status).toBe(404);
    expect((await hub.ask(`/lab/run/resolve/${first}/a`)).text).toBe("1");
  });

  it("treats names of Object's own members like any other", async () => {
    const hub = await openHubWithRepo();
    const names = ["__proto__", "constructor", "12", "2", "toString"];
    await hub.commit(
      "lab/run",
      names.map((name) => file(name, name)),
    );
    expect(await hub.files("lab/run")).toEqual([...names].sort());
    for (const name of names) expect((await hub.ask(`/lab/run/resolve/main/${name}`)).text).toBe(name);
    expect((await hub.ask("/lab/run/resolve/main/valueOf")).status).toBe(404);
  });
});

describe("the parent", () => {
  it("must be the head: otherwise 412, and nothing changes", async () => {
    const hub = await openHubWithRepo();
    const old = await hub.head("lab/run");
    await hub.commit("lab/run", [file("a", "1")], { parentCommit: old });
    const head = await hub.head("lab/run");
    const stale = await hub.commit("lab/run", [file("a", "2")], { parentCommit: old });
    expect([stale.status, stale.headers.get("x-error-code"), stale.json.head]).toEqual([
      412,
      "HeadMoved",
      head,
    ]);
    expect(stale.json.error).toMatch(/A commit has happened since/);
    expect(await hub.head("lab/run")).toBe(head);
    expect(hub.leftovers()).toEqual([]);
    expect((await hub.commit("lab/run", [file("a", "2")], { parentCommit: head.slice(0, 7) })).status).toBe(
      200,
    );
  });

  it("is compared even when the content is what the repository holds", async () => {
    const hub = await openHubWithRepo();
    const old = await hub.head("lab/run");
    await hub.commit("lab/run", [file("a", "1")]);
    const { json } = await hub.post("/api/models/lab/run/preupload/main", {
      files: [{ path: "a", size: 1, sample: "MQ==" }],
    });
    // With an `oid` here the Python client would not send the commit at all.
    expect(json).toEqual({ files: [{ path: "a", uploadMode: "regular", shouldIgnore: false }] });
    expect((await hub.commit("lab/run", [file("a", "1")], { parentCommit: old })).status).toBe(412);
  });

  it("lets exactly one of many win, whatever the order", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 2, max: 6 }),
        fc.integer({ min: 1, max: 3 }),
        async (writers, rounds) => {
          const hub = await openHubWithRepo();
          for (let round = 0; round < rounds; round++) {
            const parentCommit = await hub.head("lab/run");
            const answers = await Promise.all(
              Array.from({ length: writers }, (_, writer) =>
                hub.commit("lab/run", [file("who", `${round}.${writer}`)], { parentCommit }),
              ),
            );
            const winners = answers.flatMap(({ status }, writer) => (status === 200 ? [writer] : []));
            expect(winners).toHaveLength(1);
            expect(answers.filter(({ status }) => status === 412)).toHaveLength(writers - 1);
            expect((await hub.ask("/lab/run/resolve/main/who")).text).toBe(`${round}.${winners[0]}`);
          }
          expect(hub.leftovers()).toEqual([]);
          await hub.server.close();
        },
      ),
      { seed: 4, numRuns: 8 },
    );
  });

  it("may be absent: then all of many are applied, one after another", async () => {
    const hub = await openHubWithRepo();
    const writers = Array.from({ length: 8 }, (_, writer) => writer);
    const answers = await Promise.all(
      writers.map((writer) => hub.commit("lab/run", [file(`w${writer}`, "x")])),
    );
    expect(answers.map(({ status }) => status)).toEqual(writers.map(() => 200));
    expect(await hub.files("lab/run")).toEqual(writers.map((writer) => `w${writer}`));
  });
});

describe("a refused commit", () => {
  const header = JSON.stringify({ key: "header", value: { summary: "s" } });
  const good = JSON.stringify(file("good", "x"));
  const line = (key: string, value: unknown) => JSON.stringify({ key, value });
  it.each([
    ["no lines", ""],
    ["no header", good],
    ["two headers", `${header}\n${header}`],
    ["no summary", line("header", {})],
    ["a bad parent", line("header", { summary: "s", parentCommit: "xyz" })],
    ["no JSON", `${header}\n${good}\n{"key": nonsense}`],
    ["a string without end", `${header}\n${good}\n{"key":"file","value":{"path":"b","content":"abc`],
    ["a bare string", `${header}\n"text"`],
    ["an unknown key", `${header}\n${good}\n${line("move", { path: "x" })}`],
    ["too many brackets", `${header}\n}}}}`],
    ["no base64", `${header}\n${line("file", { path: "b", content: "a*b=", encoding: "base64" })}`],
    ["padding inside", `${header}\n${line("file", { path: "b", content: "YQ==YQ==", encoding: "base64" })}`],
    ["half a group", `${header}\n${line("file", { path: "b", content: "YWFhY", encoding: "base64" })}`],
    ["an unknown encoding", `${header}\n${line("file", { path: "b", content: "a", encoding: "latin1" })}`],
    ["no content", `${header}\n${line("file", { path: "b" })}`],
    ["no path", `${header}\n${line("file", { content: "a" })}`],
    ["two contents", `${header}\n{"key":"file","value":{"path":"b","content":"a","content":"b"}}`],
    ["a bad escape", `${header}\n{"key":"file","value":{"path":"b","content":"\\x"}}`],
    ["half a surrogate pair", `${header}\n{"key":"file","value":{"path":"b","content":"\\ud800"}}`],
    ["a file inside a file", `${header}\n${good}\n${line("file", { path: "good/b", content: "a" })}`],
    [
      "an LFS file that was not uploaded",
      `${header}\n${good}\n${line("lfsFile", { path: "b", algo: "sha256", oid: "0".repeat(64), size: 1 })}`,
    ],
    [
      "a bad LFS name",
      `${header}\n${line("lfsFile", { path: "b", algo: "sha256", oid: "../../etc", size: 1 })}`,
    ],
    [
      "another hash",
      `${header}\n${line("lfsFile", { path: "b", algo: "md5", oid: "0".repeat(64), size: 1 })}`,
    ],
  ])("with %s leaves no trace", async (_, body) => {
    const hub = await openHubWithRepo();
    const before = await hub.head("lab/run");
    const { status, json, headers } = await hub.post("/api/models/lab/run/commit/main", body);
    expect([status, headers.get("x-error-code")]).toEqual([400, "InvalidRequest"]);
    expect(json.error).toMatch(/\S/);
    expect(await hub.head("lab/run")).toBe(before);
    expect(hub.leftovers()).toEqual([]);
    expect((await checkHubStore(hub.root)).blobs).toBe(0);
  });

  it("names what is not there", async () => {
    const hub = await openHubWithRepo();
    const missing = await hub.commit("lab/run", [{ key: "deletedFile", value: { path: "x" } }]);
    expect([missing.status, missing.headers.get("x-error-code")]).toEqual([404, "EntryNotFound"]);
    expect(missing.json.error).toContain("A file with this name doesn't exist");
    expect((await hub.commit("lab/run", [{ key: "deletedFolder", value: { path: "x/" } }])).status).toBe(404);
    const elsewhere = await hub.post("/api/models/lab/run/commit/other", header);
    expect([elsewhere.status, elsewhere.headers.get("x-error-code")]).toEqual([404, "RevisionNotFound"]);
    const detached = await hub.post(`/api/models/lab/run/commit/${await hub.head("lab/run")}`, header);
    expect(detached.status).toBe(404);
    expect((await hub.post("/api/models/lab/run/commit/main?create_pr=1", header)).status).toBe(400);
  });
});

describe("LFS", () => {
  const content = Buffer.from("weights ".repeat(100));
  const oid = sha256(content);
  const ask = (objects: object[]) => ({
    operation: "upload",
    transfers: ["basic", "multipart", "xet"],
    objects,
  });
  const batchPath = "/lab/run.git/info/lfs/objects/batch";

  it("uploads, verifies and commits; a second upload is not needed", async () => {
    const hub = await openHubWithRepo();
    const first = await hub.post(batchPath, ask([{ oid, size: content.byteLength }]));
    expect(first.headers.get("content-type")).toMatch(/^application\/vnd\.git-lfs\+json/);
    expect(first.json).toEqual({
      transfer: "basic",
      objects: [
        {
          oid,
          size: content.byteLength,
          authenticated: true,
          actions: {
            upload: {
              href: expect.stringMatching(/^http:\/\/localhost\/_lfs\//),
              expires_at: expect.any(String),
            },
            verify: { href: "http://localhost/lab/run.git/info/lfs/verify" },
          },
        },
      ],
    });
    const { upload, verify } = first.json.objects[0].actions;
    for (let time = 0; time < 2; time++) {
      const { status, headers } = await hub.ask(upload.href, { method: "PUT", body: content });
      expect([status, headers.get("etag")]).toEqual([200, `"${oid}"`]);
    }
    expect((await hub.post(verify.href, { oid, size: content.byteLength })).status).toBe(200);
    expect((await hub.post(verify.href, { oid, size: 1 })).status).toBe(422);
    expect((await hub.post(verify.href, { oid: "0".repeat(64), size: 1 })).status).toBe(404);
    const again = await hub.post(batchPath, ask([{ oid, size: content.byteLength }]));
    expect(again.json.objects).toEqual([{ oid, size: content.byteLength }]);
    expect((await commitLfs(hub, "lab/run", "w", content)).status).toBe(200);
    expect((await hub.ask("/lab/run/resolve/main/w")).text).toBe(content.toString());
    expect(hub.leftovers()).toEqual([]);
  });

  it("copies within a repository without a size", async () => {
    const hub = await openHubWithRepo();
    await commitLfs(hub, "lab/run", "w", content);
    expect(
      (await hub.commit("lab/run", [{ key: "lfsFile", value: { path: "copy", algo: "sha256", oid } }]))
        .status,
    ).toBe(200);
    expect((await hub.ask("/lab/run/resolve/main/copy")).text).toBe(content.toString());
  });

  it("opens nobody else's content: knowing a hash is not having it", async () => {
    const hub = await openHubWithRepo();
    await hub.create("lab/secret", { isPrivate: true });
    await commitLfs(hub, "lab/secret", "w", content);
    const steal = await hub.commit("lab/run", [
      { key: "lfsFile", value: { path: "w", algo: "sha256", oid, size: content.byteLength } },
    ]);
    expect(steal.status).toBe(400);
    const { json } = await hub.post(batchPath, ask([{ oid, size: content.byteLength }]));
    expect(json.objects[0].actions).toBeDefined();
  });

  it("decides by size and client what comes inside a commit", async () => {
    const hub = await openHubWithRepo({
      limits: { lfsThresholdBytes: 100, maxInlineFileBytes: 1000, maxCommitBytes: 20_000 },
    });
    const modes = async (sizes: number[], agent: string) => {
      const { json } = await hub.ask("/api/models/lab/run/preupload/main", {
        method: "POST",
        headers: { "User-Agent": agent },
        body: { files: sizes.map((size, index) => ({ path: `f${index}`, size, sample: "" })) },
      });
      return json.files.map(({ uploadMode }: { uploadMode: string }) => uploadMode);
    };
    const python = (version: string) => `unknown/None; hf_hub/${version}; python/3.11.7; torch/2.13.0`;
    expect(await modes([0, 100, 101], "node")).toEqual(["regular", "regular", "lfs"]);
    expect(await modes([0, 101], python("1.19.3"))).toEqual(["regular", "lfs"]);
    expect(await modes([0, 101, 1000, 1001], python("1.20.0"))).toEqual([
      "regular",
      "regular",
      "regular",
      "lfs",
    ]);
    expect(await modes([1000, 1001], python("2.4.0"))).toEqual(["regular", "lfs"]);
    // What does not fit into one request any more goes the other way.
    expect(await modes([900, 900, 900, 900], python("2.4.0"))).toEqual([
      "regular",
      "regular",
      "regular",
      "lfs",
    ]);
    const token = await hub.ask("/api/models/lab/run/xet-write-token/main");
    expect([token.status, token.json.error]).toEqual([404, expect.stringMatching(/HF_HUB_DISABLE_XET=1/)]);
  });

  it("takes tensors of some size on their own, as the Hub does", async () => {
    const hub = await openHubWithRepo({});
    const size = (1 << 18) + 1;
    const files = ["a.safetensors", "a.json"].map((path) => ({ path, size, sample: "" }));
    const { json } = await hub.post("/api/models/lab/run/preupload/main", { files });
    expect(json.files.map(({ uploadMode }: { uploadMode: string }) => uploadMode)).toEqual([
      "lfs",
      "regular",
    ]);
  });

  it("lists a large file that came inside a commit as LFS", async () => {
    const hub = await openHubWithRepo({ limits: { lfsThresholdBytes: 100 } });
    await hub.commit("lab/run", [file("w", content)]);
    expect((await hub.ask("/api/models/lab/run/tree/main")).json[0].lfs).toEqual({
      oid,
      size: 800,
      pointerSize: 128,
    });
  });
});
