// Paths that would leave a folder, hide something or break a tool are refused wherever a client can send one.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { checkRepoPath } from "../../src/hub-server/repo-path.js";
import { file, openHubWithRepo } from "./harness.js";

const bad = [
  "",
  "/",
  "/etc/passwd",
  "//host/share",
  "../x",
  "a/../../x",
  "a/..",
  "..",
  ".",
  "./a",
  "a/./b",
  "a//b",
  "a/",
  "..\\x",
  "a\\b",
  "C:\\x",
  "C:/x",
  "c:x",
  ".git/config",
  ".GIT/hooks/post-checkout",
  "a/.git/x",
  ".git",
  ".git./x",
  ".git /x",
  "a\0b",
  "a\nb",
  "a\x7fb",
  "a\u0085b",
  "a\u202eb",
  "a\u2028b",
  "\ud800",
  "x".repeat(1025),
  `a/${"x".repeat(256)}`,
];

/** Whatever a client sends, the store's own folder and what lies around it stay as they are. */
function outside(root: string): string[] {
  return [...readdirSync(join(root, "..")), ...readdirSync(root), ...readdirSync(join(root, "repos/models"))];
}

describe("security: a bad path", () => {
  it.each(bad)("%j is refused in commits, uploads, listings and downloads", async (path) => {
    const hub = await openHubWithRepo();
    const before = outside(hub.root);
    const lines = [
      file(path, "x"),
      { key: "lfsFile", value: { path, algo: "sha256", oid: "0".repeat(64), size: 1 } },
      { key: "deletedFile", value: { path } },
      // A folder may end with its slash.
      { key: "deletedFolder", value: { path: path === "a/" ? "a/../" : path } },
    ];
    for (const line of lines) expect((await hub.commit("lab/run", [line])).status).toBe(400);
    const preupload = await hub.post("/api/models/lab/run/preupload/main", {
      files: [{ path, size: 1, sample: "" }],
    });
    expect(preupload.status).toBe(400);
    expect((await hub.post("/api/models/lab/run/paths-info/main", { paths: [path] })).status).toBe(400);
    if (!path.includes("\ud800")) {
      const address = encodeURIComponent(path);
      for (const place of [
        "/lab/run/resolve/main/",
        "/lab/run/raw/main/",
        "/api/models/lab/run/tree/main/",
      ]) {
        const { status, text } = await hub.ask(`${place}${address}`);
        // The root and folders may be listed with a slash at the end; "." and ".." are gone when a URL is read.
        if (status === 200) expect([place.includes("tree"), text]).toEqual([true, "[]"]);
        else expect([400, 404]).toContain(status);
      }
    }
    expect(await hub.files("lab/run")).toEqual([]);
    expect(outside(hub.root)).toEqual(before);
    expect(hub.leftovers()).toEqual([]);
  });

  it.each([
    "/lab/run/resolve/main/..%2f..%2f..%2fhub.json",
    "/lab/run/resolve/main/..%5c..%5chub.json",
    "/lab/run/resolve/..%2f..%2fupload-key/x",
    "/lab/run/resolve/%2e%2e%2f/x",
    "/lab/run/resolve/main/%ff",
    "/lab/run/resolve/main/%",
    "/lab/%2e%2e%2f%2e%2e/resolve/main/upload-key",
    "/lab%2f..%2f..%2f/run/resolve/main/a",
    "/api/models/..%2f..%2f/x",
    "/api/models/lab/run/revision/..%2f..%2frepo.json",
    "/api/models/lab/run/tree/..%2frefs",
    "/_lfs/..%2f..%2fupload-key?repo=models/lab/run&size=1&exp=1&sig=x",
    "/_lfs/0?repo=models/../..&size=1&exp=1&sig=x",
  ])("%s leads nowhere", async (address) => {
    const hub = await openHubWithRepo();
    const key = readFileSync(join(hub.root, "upload-key"), "utf8").trim();
    for (const method of ["GET", "PUT", "POST", "DELETE"]) {
      const { status, text, headers } = await hub.ask(address, {
        method,
        ...(method === "GET" ? {} : { body: "{}" }),
      });
      expect([400, 403, 404]).toContain(status);
      expect(text).not.toContain(key);
      expect(headers.get("x-error-code")).toBeTruthy();
    }
  });
});

describe("security: a path", () => {
  it("is taken or refused, and what is taken stays inside", () => {
    const piece = fc.constantFrom(
      "a",
      "..",
      ".",
      "",
      ".git",
      "b c",
      "ü",
      "\\",
      "\0",
      "~",
      "-",
      "con",
      "😀",
      "a.b",
      "...",
    );
    const path = fc.oneof(
      fc.array(piece, { maxLength: 6 }).map((pieces) => pieces.join("/")),
      fc.string({ unit: "binary", maxLength: 30 }),
    );
    fc.assert(
      fc.property(path, (text) => {
        let taken: string;
        try {
          taken = checkRepoPath(text);
        } catch {
          return;
        }
        expect(taken).toBe(text);
        const resolved = new URL(taken.split("/").map(encodeURIComponent).join("/"), "file:///root/");
        expect(decodeURIComponent(resolved.pathname)).toBe(`/root/${text}`);
        expect(taken).not.toMatch(/[\\\p{Cc}]|(^|\/)\.git(\/|$)/iu);
      }),
      { seed: 7, numRuns: 500 },
    );
  });

  it.each([
    "a",
    "a/b/c",
    ".gitattributes",
    "a/.gitignore",
    "...",
    "a..b",
    "nodes/n-1/delta_5.safetensors",
    "ü €",
    "x".repeat(255),
  ])("%s is fine", (path) => {
    expect(checkRepoPath(path)).toBe(path);
  });
});
