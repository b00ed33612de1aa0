// File contents over the API: headers, ranges, conditions.

import { describe, expect, it } from "vitest";
import { commitLfs, file, openHub, openHubWithRepo, sha256 } from "./harness.js";

const content = "0123456789";

async function hubWithFile() {
  const hub = await openHubWithRepo();
  await hub.commit("lab/run", [file("a.txt", content), file("empty", "")]);
  await commitLfs(hub, "lab/run", "w.bin", Buffer.from("weights"));
  return hub;
}

describe("a file", () => {
  it("comes with the headers that the clients need, by GET and by HEAD", async () => {
    const hub = await hubWithFile();
    const head = await hub.head("lab/run");
    for (const method of ["GET", "HEAD"]) {
      const { status, headers, text } = await hub.ask("/lab/run/resolve/main/a.txt", { method });
      expect({ status, text, headers: Object.fromEntries(headers) }).toMatchObject({
        status: 200,
        text: method === "GET" ? content : "",
        headers: {
          "x-repo-commit": head,
          etag: expect.stringMatching(/^"[0-9a-f]{40}"$/),
          "accept-ranges": "bytes",
          "content-length": "10",
          "content-type": "text/plain; charset=utf-8",
          "cache-control": "no-cache",
          "x-content-type-options": "nosniff",
        },
      });
    }
  });

  it("is linked by its SHA-256 if it is large", async () => {
    const hub = await hubWithFile();
    const { headers } = await hub.ask("/lab/run/resolve/main/w.bin", { method: "HEAD" });
    const etag = `"${sha256("weights")}"`;
    expect([headers.get("etag"), headers.get("x-linked-etag"), headers.get("x-linked-size")]).toEqual([
      etag,
      etag,
      "7",
    ]);
    expect([...headers.keys()].filter((name) => /xet|content-encoding|location/.test(name))).toEqual([]);
  });

  it("is there as git has it under raw", async () => {
    const hub = await hubWithFile();
    expect((await hub.ask("/lab/run/raw/main/a.txt")).text).toBe(content);
    expect((await hub.ask("/lab/run/raw/main/w.bin")).text).toBe(
      `version https://git-lfs.github.com/spec/v1\noid sha256:${sha256("weights")}\nsize 7\n`,
    );
    expect((await hub.ask("/lab/run/raw/main/none", { method: "HEAD" })).status).toBe(404);
  });

  it("may be kept for ever by its commit's id, and by nobody else if it is private", async () => {
    const hub = await hubWithFile();
    const control = async (id: string) => {
      const { headers } = await hub.ask(`/${id}/resolve/${await hub.head(id)}/a.txt`);
      return headers.get("cache-control");
    };
    expect(await control("lab/run")).toBe("public, max-age=31536000, immutable");
    await hub.create("lab/secret", { isPrivate: true });
    await hub.commit("lab/secret", [file("a.txt", content)]);
    expect(await control("lab/secret")).toBe("private, max-age=31536000, immutable");
  });

  it("is found under a name that needs encoding", async () => {
    const hub = await openHubWithRepo();
    const names = ["a b", "100%", "a%2Fb", "ü/€.txt", "q?x#y", "a+b&c=d", "refs/heads/x"];
    await hub.commit(
      "lab/run",
      names.map((name) => file(name, name)),
    );
    for (const name of names) {
      const address = name.split("/").map(encodeURIComponent).join("/");
      expect((await hub.ask(`/lab/run/resolve/main/${address}`)).text, name).toBe(name);
    }
  });

  it("is never shown as a page", async () => {
    const hub = await openHubWithRepo();
    await hub.commit("lab/run", [file("x.html", "<script>"), file("x.svg", "<svg/>")]);
    for (const name of ["x.html", "x.svg"]) {
      const { headers } = await hub.ask(`/lab/run/resolve/main/${name}`);
      expect(headers.get("content-type")).toBe("application/octet-stream");
      expect(headers.get("content-security-policy")).toContain("sandbox");
    }
  });
});

describe("a range", () => {
  it.each([
    ["bytes=0-0", 206, "0", "bytes 0-0/10"],
    ["bytes=2-4", 206, "234", "bytes 2-4/10"],
    ["bytes=7-", 206, "789", "bytes 7-9/10"],
    ["bytes=7-99", 206, "789", "bytes 7-9/10"],
    ["bytes=-3", 206, "789", "bytes 7-9/10"],
    ["bytes=-99", 206, content, "bytes 0-9/10"],
    ["bytes=4-2", 200, content, null],
    ["bytes=-", 200, content, null],
    ["bytes=0-1,3-4", 200, content, null],
    ["lines=0-1", 200, content, null],
    ["bytes=1e0-2", 200, content, null],
  ])("%s", async (range, status, text, contentRange) => {
    const hub = await hubWithFile();
    const answer = await hub.ask("/lab/run/resolve/main/a.txt", { headers: { Range: range } });
    expect([answer.status, answer.text, answer.headers.get("content-range")]).toEqual([
      status,
      text,
      contentRange,
    ]);
    expect(answer.headers.get("content-length")).toBe(String(text.length));
  });

  it.each(["bytes=10-", "bytes=10-12", "bytes=-0", "bytes=99999999999999999999-"])(
    "%s is out of range",
    async (range) => {
      const hub = await hubWithFile();
      const { status, headers } = await hub.ask("/lab/run/resolve/main/a.txt", { headers: { Range: range } });
      expect([status, headers.get("content-range")]).toEqual([416, "bytes */10"]);
    },
  );

  it("of an empty file is nothing, not an error", async () => {
    const hub = await hubWithFile();
    const { status, headers, text } = await hub.ask("/lab/run/resolve/main/empty", {
      headers: { Range: "bytes=0-0" },
    });
    expect([status, headers.get("content-range"), headers.get("content-length"), text]).toEqual([
      206,
      "bytes */0",
      "0",
      "",
    ]);
    expect((await hub.ask("/lab/run/resolve/main/empty")).status).toBe(200);
  });

  it("counts only for the version that the client has", async () => {
    const hub = await hubWithFile();
    const etag = (await hub.ask("/lab/run/resolve/main/a.txt")).headers.get("etag")!;
    const ask = (ifRange: string) =>
      hub.ask("/lab/run/resolve/main/a.txt", { headers: { Range: "bytes=5-", "If-Range": ifRange } });
    expect((await ask(etag)).text).toBe("56789");
    expect((await ask('"other"')).text).toBe(content);
  });
});

describe("a poll", () => {
  it("is answered with 304 as long as the file is the same", async () => {
    const hub = await hubWithFile();
    const etag = (await hub.ask("/lab/run/resolve/main/a.txt")).headers.get("etag")!;
    const poll = (header: string) =>
      hub.ask("/lab/run/resolve/main/a.txt", { headers: { "If-None-Match": header } });
    for (const header of [etag, `W/${etag}`, `"x", ${etag}`, "*"]) {
      const { status, headers, text } = await poll(header);
      expect([status, text, headers.get("etag")], header).toEqual([304, "", etag]);
      expect(headers.get("x-repo-commit")).toBe(await hub.head("lab/run"));
    }
    await hub.commit("lab/run", [file("a.txt", "new")]);
    expect((await poll(etag)).text).toBe("new");
  });
});

describe("a missing file", () => {
  it("is told by code, with the commit that does not have it", async () => {
    const hub = await openHub();
    await hub.create("lab/run");
    const { status, headers } = await hub.ask("/lab/run/resolve/main/a", { method: "HEAD" });
    expect([status, headers.get("x-error-code"), headers.get("x-repo-commit")]).toEqual([
      404,
      "EntryNotFound",
      await hub.head("lab/run"),
    ]);
  });
});
