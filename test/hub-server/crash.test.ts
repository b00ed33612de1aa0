// A few kills; the slow suite has many.

import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { checkHubStore } from "../../src/hub-server/index.js";
import { killAgainAndAgain } from "./crash.js";
import { file, openHub, openHubWithRepo, scratch } from "./harness.js";

describe("a server that is killed", () => {
  it("leaves every branch at a complete commit and loses nothing that it acknowledged", async () => {
    expect(await killAgainAndAgain(join(scratch(), "hub"), 3, 1)).toBeGreaterThan(3);
  });

  it("has its leftovers swept at the next start", async () => {
    const hub = await openHubWithRepo();
    await hub.commit("lab/run", [file("a", "1")]);
    await hub.server.close();
    const repo = join(hub.root, "repos/models/lab/run");
    writeFileSync(join(hub.root, "staging/half"), "x");
    mkdirSync(join(hub.root, "trash/old/blobs"), { recursive: true });
    for (const folder of ["refs", "commits"])
      writeFileSync(join(repo, folder, `.main.999999999-${"0".repeat(16)}.tmp`), "half");
    const again = await openHub({ root: hub.root });
    expect((await again.ask("/api/models/lab/run/refs")).json.branches).toHaveLength(1);
    expect([again.leftovers(), readdirSync(join(hub.root, "trash"))]).toEqual([[], []]);
    expect(readdirSync(join(repo, "refs"))).toEqual(["main"]);
    expect(readdirSync(join(repo, "commits"))).toHaveLength(2);
  });
});

describe("a store that is damaged", () => {
  it.each([
    [
      "a commit was changed",
      "commits",
      (path: string) => writeFileSync(path, readFileSync(path, "utf8").replace("a change", "a chance")),
      /damaged/,
    ],
    ["a commit is gone", "commits", (path: string) => rmSync(path), /no such file/],
    ["a content was changed", "blobs", (path: string) => writeFileSync(path, "y"), /another hash/],
    ["a content was cut", "blobs", (path: string) => writeFileSync(path, ""), /has 0 of 1 bytes/],
  ])("is found so: %s", async (_, folder, damage, message) => {
    const hub = await openHubWithRepo();
    await hub.commit("lab/run", [file("a", "x")]);
    await hub.server.close();
    expect(await checkHubStore(hub.root)).toEqual({
      repositories: 1,
      branches: 1,
      commits: 2,
      blobs: 1,
      problems: [],
    });
    const head = readFileSync(join(hub.root, "repos/models/lab/run/refs/main"), "utf8").trim();
    const paths = readdirSync(join(hub.root, "repos/models/lab/run", folder), {
      recursive: true,
      encoding: "utf8",
    });
    const wanted = paths.find((path) =>
      folder === "commits" ? path === `${head}.json` : path.includes("/"),
    )!;
    damage(join(hub.root, "repos/models/lab/run", folder, wanted));
    expect((await checkHubStore(hub.root)).problems).toEqual([expect.stringMatching(message)]);
    const again = await openHub({ root: hub.root });
    if (folder === "commits")
      expect((await again.ask("/api/models/lab/run")).status).toBeGreaterThanOrEqual(404);
  });
});
