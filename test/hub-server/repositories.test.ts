// Repositories over the API: made, described, listed, deleted; folders, pages, history, branches.

import { readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { checkHubStore } from "../../src/hub-server/index.js";
import { commitLfs, file, openHub, openHubWithRepo } from "./harness.js";

describe("creating", () => {
  it("answers with the address under the host that the client used", async () => {
    const hub = await openHub();
    const { status, json } = await hub.create("lab/run");
    expect({ status, json }).toEqual({
      status: 200,
      json: { url: "http://localhost/lab/run", id: "lab/run", name: "lab/run", private: false },
    });
    expect((await hub.create("lab/data", { type: "dataset" })).json.url).toBe(
      "http://localhost/datasets/lab/data",
    );
  });

  it("tells the address of a repository that exists already, since the Python client reads it there", async () => {
    const hub = await openHubWithRepo();
    const { status, json, headers } = await hub.create("lab/run");
    expect({ status, url: json.url, code: headers.get("x-error-code") }).toEqual({
      status: 409,
      url: "http://localhost/lab/run",
      code: "Conflict",
    });
    expect(json.error).not.toMatch(/another conflicting operation/);
  });

  it("lets one of two win that create the same repository at once", async () => {
    const hub = await openHub();
    const answers = await Promise.all(Array.from({ length: 8 }, () => hub.create("lab/run")));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 409, 409, 409, 409, 409, 409, 409]);
    expect(hub.leftovers()).toEqual([]);
  });

  it("takes the caller's name for a repository without a namespace", async () => {
    const hub = await openHub();
    expect((await hub.post("/api/repos/create", { name: "run", organization: null })).json.id).toBe(
      "local/run",
    );
  });

  it("commits files that come along", async () => {
    const hub = await openHub();
    const content = Buffer.from("hello").toString("base64");
    await hub.post("/api/repos/create", {
      organization: "lab",
      name: "run",
      files: [{ encoding: "base64", path: "hello.txt", content }],
    });
    expect((await hub.ask("/lab/run/resolve/main/hello.txt")).text).toBe("hello");
  });

  it.each(["-run", "run.", "a--b", "a..b", "run.git", "ru n", "..", "", "a/b", "ü", "x".repeat(97)])(
    "refuses the name %j",
    async (name) => {
      const hub = await openHub();
      const { status } = await hub.post("/api/repos/create", { organization: "lab", name: `${name}` });
      // `a/b` is a whole id: the organisation is not looked at.
      expect(status).toBe(name === "a/b" ? 200 : 400);
    },
  );

  it("keeps names apart that differ in case", async () => {
    const hub = await openHub();
    expect((await hub.create("lab/Run")).status).toBe(200);
    expect((await hub.create("lab/run")).status).toBe(200);
    await hub.commit("lab/Run", [file("a", "upper")]);
    expect(await hub.files("lab/run")).toEqual([]);
  });
});

describe("describing", () => {
  it("has a head from the beginning, so that a first commit can name its parent", async () => {
    const hub = await openHub({ now: () => new Date("2026-01-02T03:04:05Z") });
    await hub.create("lab/run", { isPrivate: true });
    const { json } = await hub.ask("/api/models/lab/run");
    expect(json).toEqual({
      _id: expect.stringMatching(/^[0-9a-f]{24}$/),
      id: "lab/run",
      modelId: "lab/run",
      author: "lab",
      sha: expect.stringMatching(/^[0-9a-f]{40}$/),
      private: true,
      gated: false,
      disabled: false,
      lastModified: "2026-01-02T03:04:05.000Z",
      createdAt: "2026-01-02T03:04:05.000Z",
      downloads: 0,
      likes: 0,
      tags: [],
      siblings: [],
    });
    for (const revision of ["main", "HEAD", "refs%2Fheads%2Fmain", "refs/heads/main", json.sha])
      expect((await hub.ask(`/api/models/lab/run/revision/${revision}`)).json.sha).toBe(json.sha);
  });

  it("lists files with sizes when asked for blobs", async () => {
    const hub = await openHubWithRepo();
    await hub.commit("lab/run", [file("a.txt", "abc")]);
    await commitLfs(hub, "lab/run", "w.bin", Buffer.from("weights"));
    const { json } = await hub.ask("/api/models/lab/run?blobs=true");
    expect(json.siblings).toEqual([
      { rfilename: "a.txt", size: 3, blobId: "f2ba8f84ab5c1bce84a7b441cb1959cfc7093b7f" },
      {
        rfilename: "w.bin",
        size: 7,
        blobId: "c6a67be4f3ef29ed4a07b4f2446625126a25cfda",
        lfs: { size: 7, sha256: expect.stringMatching(/^[0-9a-f]{64}$/), pointerSize: 126 },
      },
    ]);
  });

  it("says what is missing by code", async () => {
    const hub = await openHubWithRepo();
    const codeOf = async (path: string) => (await hub.ask(path)).headers.get("x-error-code");
    expect(await codeOf("/api/models/lab/other")).toBe("RepoNotFound");
    expect(await codeOf("/api/models/lab")).toBe("RepoNotFound");
    expect(await codeOf("/api/spaces/lab/run")).toBe("RepoNotFound");
    expect(await codeOf("/api/datasets/lab/run")).toBe("RepoNotFound");
    expect(await codeOf("/api/models/lab/run/revision/other")).toBe("RevisionNotFound");
    expect(await codeOf(`/api/models/lab/run/revision/${"0".repeat(40)}`)).toBe("RevisionNotFound");
    expect(await codeOf("/lab/run/resolve/main/missing")).toBe("EntryNotFound");
    expect(await codeOf("/api/models/lab/run/tree/main/missing")).toBe("EntryNotFound");
    expect(await codeOf("/nothing")).toBe("NotFound");
    const { headers, json } = await hub.ask("/nothing");
    expect(json.error).toContain("/nothing");
    expect(headers.get("x-request-id")).toMatch(/^[0-9a-f]{24}$/);
  });
});

describe("deleting", () => {
  it("takes everything away, and a new one of the same name starts empty", async () => {
    const hub = await openHubWithRepo();
    await hub.commit("lab/run", [file("a", "1")]);
    const old = await hub.head("lab/run");
    const remove = () =>
      hub.ask("/api/repos/delete", {
        method: "DELETE",
        body: { organization: "lab", name: "run", type: "model" },
      });
    expect((await remove()).status).toBe(200);
    expect((await remove()).headers.get("x-error-code")).toBe("RepoNotFound");
    expect((await hub.ask("/lab/run/resolve/main/a")).headers.get("x-error-code")).toBe("RepoNotFound");
    await hub.create("lab/run");
    expect(await hub.files("lab/run")).toEqual([]);
    expect((await hub.ask(`/lab/run/resolve/${old}/a`)).headers.get("x-error-code")).toBe("RevisionNotFound");
  });
});

describe("listing files", () => {
  it("gives one level or all, folders included", async () => {
    const hub = await openHubWithRepo();
    await hub.commit("lab/run", [
      file("nodes/a/1", "x"),
      file("nodes/b/1", "y"),
      file("top", "z"),
      file("nodes-2", ""),
    ]);
    const paths = async (query: string) =>
      (await hub.ask(`/api/models/lab/run/tree/${query}`)).json.map((item: { path: string }) => item.path);
    expect(await paths("main")).toEqual(["nodes", "nodes-2", "top"]);
    expect(await paths("main/nodes")).toEqual(["nodes/a", "nodes/b"]);
    expect(await paths("main/nodes%2Fa")).toEqual(["nodes/a/1"]);
    expect(await paths("main/nodes/?recursive=true")).toEqual([
      "nodes/a",
      "nodes/a/1",
      "nodes/b",
      "nodes/b/1",
    ]);
    expect(await paths("refs/heads/main/nodes?recursive=True")).toHaveLength(4);
  });

  it("describes files with git's names, and says nothing of Xet", async () => {
    const hub = await openHubWithRepo();
    await hub.commit("lab/run", [file("a", "abc")]);
    const { sha: first } = (await hub.ask("/api/models/lab/run")).json;
    await commitLfs(hub, "lab/run", "d/w", Buffer.from("weights"));
    const second = await hub.head("lab/run");
    const { json, text } = await hub.ask("/api/models/lab/run/tree/main?recursive=true&expand=true");
    const last = (id: string) => ({ id, title: "a change", date: expect.any(String) });
    const lfs = { oid: expect.any(String), size: 7, pointerSize: 126 };
    expect(json).toEqual([
      {
        type: "file",
        path: "a",
        size: 3,
        oid: "f2ba8f84ab5c1bce84a7b441cb1959cfc7093b7f",
        lastCommit: last(first),
      },
      { type: "directory", path: "d", size: 0, oid: expect.any(String), lastCommit: last(second) },
      {
        type: "file",
        path: "d/w",
        size: 7,
        oid: expect.any(String),
        lfs: { ...lfs, oid: expect.stringMatching(/^[0-9a-f]{64}$/) },
        lastCommit: last(second),
      },
    ]);
    expect(text).not.toMatch(/xet/i);
  });

  it("goes page by page over absolute links", async () => {
    const hub = await openHubWithRepo();
    const names = Array.from({ length: 25 }, (_, index) => `f${String(index).padStart(2, "0")} ü`);
    await hub.commit(
      "lab/run",
      names.map((name) => file(name, name)),
    );
    const seen: string[] = [];
    let next: string | undefined = "http://localhost/api/models/lab/run/tree/main?recursive=true&limit=10";
    let pages = 0;
    while (next !== undefined) {
      const { json, headers } = await hub.ask(next);
      seen.push(...json.map((item: { path: string }) => item.path));
      pages += 1;
      const link = headers.get("link");
      next = link === null ? undefined : /^<(https?:\/\/[^>]+)>; rel="next"$/.exec(link)?.[1];
    }
    expect(pages).toBe(3);
    expect(seen).toEqual(names);
  });

  it("looks up single paths, sent as a form or as JSON", async () => {
    const hub = await openHubWithRepo();
    await hub.commit("lab/run", [file("a/b", "1"), file("c", "2")]);
    const path = "/api/models/lab/run/paths-info/main";
    const form = await hub.ask(path, {
      method: "POST",
      headers: { "Content-Type": "application/x-www-form-urlencoded" },
      body: "paths=c&paths=a&paths=missing&expand=false",
    });
    const json = await hub.post(path, { paths: ["c", "a", "missing"], expand: false });
    expect(form.json.map((item: { path: string; type: string }) => [item.path, item.type])).toEqual([
      ["c", "file"],
      ["a", "directory"],
    ]);
    expect(json.json).toEqual(form.json);
    expect((await hub.post(path, { paths: "c", expand: true })).json[0].lastCommit.id).toBe(
      await hub.head("lab/run"),
    );
  });
});

describe("history", () => {
  it("lists commits newest first, in pages", async () => {
    const hub = await openHubWithRepo();
    for (const title of ["one", "two", "three"])
      await hub.commit("lab/run", [file("a", title)], { summary: title });
    const first = await hub.ask("/api/models/lab/run/commits/main?limit=3");
    expect(first.json.map(({ title }: { title: string }) => title)).toEqual(["three", "two", "one"]);
    expect(first.json[0]).toEqual({
      id: await hub.head("lab/run"),
      title: "three",
      message: "",
      date: expect.any(String),
      authors: [{ user: "local", avatar: "" }],
    });
    const link = /<([^>]+)>/.exec(first.headers.get("link")!)![1]!;
    const second = await hub.ask(link);
    expect(second.json.map(({ title }: { title: string }) => title)).toEqual(["initial commit"]);
    expect(second.headers.get("link")).toBeNull();
  });

  it("makes, lists and deletes branches", async () => {
    const hub = await openHubWithRepo();
    const base = await hub.head("lab/run");
    expect((await hub.post("/api/models/lab/run/branch/trial%2F1", {})).status).toBe(200);
    expect((await hub.post("/api/models/lab/run/branch/trial%2F1", {})).status).toBe(409);
    await hub.commit("lab/run", [file("a", "1")]);
    const { branches } = (await hub.ask("/api/models/lab/run/refs")).json;
    expect(branches).toEqual([
      { name: "main", ref: "refs/heads/main", targetCommit: await hub.head("lab/run") },
      { name: "trial/1", ref: "refs/heads/trial/1", targetCommit: base },
    ]);
    expect((await hub.ask("/api/models/lab/run/tree/trial%2F1")).json).toEqual([]);
    for (const name of ["HEAD", "refs%2Fheads%2Fx", "deadbeef", "..", "a%2F..%2Fb", "%00"])
      expect((await hub.post(`/api/models/lab/run/branch/${name}`, {})).status, name).not.toBe(200);
    expect((await hub.ask("/api/models/lab/run/branch/trial%2F1", { method: "DELETE" })).status).toBe(200);
    expect((await hub.ask("/api/models/lab/run/branch/main", { method: "DELETE" })).status).toBe(400);
    expect((await hub.ask("/api/models/lab/run/refs")).json.branches).toHaveLength(1);
  });
});

describe("squashing", () => {
  it("keeps the files of the head, forgets the past, and frees the disk", async () => {
    const clock = { ms: Date.now() };
    const hub = await openHubWithRepo({ now: () => new Date(clock.ms) });
    await hub.commit("lab/run", [file("old", "old content"), file("kept", "kept content")]);
    await hub.post("/api/models/lab/run/branch/side", {});
    await commitLfs(hub, "lab/run", "gone.bin", Buffer.from("weights"));
    await hub.commit(
      "lab/run",
      ["old", "gone.bin"].map((path) => ({ key: "deletedFile", value: { path } })),
    );
    const before = await hub.head("lab/run");
    const blobs = () =>
      readdirSync(join(hub.root, "repos/models/lab/run/blobs"), { recursive: true }).filter(
        (path) => `${path}`.length > 60,
      );
    const squash = () => hub.post("/api/models/lab/run/super-squash/main", { message: "start afresh" });
    expect((await squash()).status).toBe(200);
    // What nobody mentions might still be about to be committed.
    expect(blobs()).toHaveLength(3);
    clock.ms += 2 * 3_600_000;
    expect((await squash()).status).toBe(200);
    // "old" is on the other branch.
    expect(blobs()).toHaveLength(2);
    expect(await hub.files("lab/run")).toEqual(["kept"]);
    expect((await hub.ask("/lab/run/resolve/main/kept")).text).toBe("kept content");
    expect((await hub.ask("/lab/run/resolve/side/old")).text).toBe("old content");
    expect((await hub.ask(`/api/models/lab/run/revision/${before}`)).headers.get("x-error-code")).toBe(
      "RevisionNotFound",
    );
    const { json } = await hub.ask("/api/models/lab/run/commits/main");
    expect(json.map(({ title }: { title: string }) => title)).toEqual(["start afresh"]);
    expect((await hub.commit("lab/run", [], { parentCommit: before })).status).toBe(412);
    const [kept] = (await hub.ask("/api/models/lab/run/tree/main?expand=true")).json;
    expect(kept.lastCommit.id).toBe(json[0].id);
    expect((await checkHubStore(hub.root)).problems).toEqual([]);
  });
});

describe("side questions", () => {
  it("have the answers that the clients need", async () => {
    const hub = await openHub();
    expect((await hub.post("/api/validate-yaml", { content: "x", repoType: "model" })).json).toEqual({
      errors: [],
      warnings: [],
    });
    expect((await hub.ask("/api/whoami-v2")).json).toMatchObject({
      type: "user",
      name: "local",
      auth: { type: "access_token" },
    });
    expect((await hub.ask("/api/agent-harnesses")).json).toEqual({ standardEnvVars: [], harnesses: {} });
  });
});

describe("the store", () => {
  it("survives a restart", async () => {
    const hub = await openHubWithRepo();
    await hub.commit("lab/run", [file("a", "kept")]);
    const head = await hub.head("lab/run");
    await hub.server.close();
    const again = await openHub({ root: hub.root });
    expect(await again.head("lab/run")).toBe(head);
    expect((await again.ask("/lab/run/resolve/main/a")).text).toBe("kept");
  });

  it("is served by one server at a time, and settles in no foreign folder", async () => {
    const hub = await openHub();
    await expect(openHub({ root: hub.root })).rejects.toThrow(/another server serves this folder/);
    await expect(openHub({ root: new URL(".", import.meta.url).pathname })).rejects.toThrow(
      /choose an empty folder/,
    );
  });
});
