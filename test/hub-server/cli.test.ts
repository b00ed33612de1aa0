// `speedtronic hub`: serving until a signal, tokens, checking a folder, and what is refused before anything starts.

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { cli, startCli } from "../cli/harness.js";
import { file, openHubWithRepo, scratch, sha256 } from "./harness.js";

describe("hub serve", () => {
  it("prints the address, logs requests on stderr, and ends with 0 when asked to", async () => {
    const root = join(scratch(), "hub");
    const server = startCli(["hub", "serve", "--root", root, "--port", "0"]);
    await server.waitFor("HF_ENDPOINT=");
    const endpoint = /HF_ENDPOINT=(http:\/\/127\.0\.0\.1:[0-9]+)\n/.exec(server.stdout())![1]!;
    expect((await fetch(`${endpoint}/api/whoami-v2`)).status).toBe(200);
    server.child.kill("SIGTERM");
    expect(await server.ended).toBe(0);
    expect(server.stderr()).toMatch(/ 127\.0\.0\.1 local GET \/api\/whoami-v2 200 [0-9]+ms [0-9a-f]{24}\n/);
    expect(readdirSync(root).sort()).toEqual(["hub.json", "repos", "staging", "trash", "upload-key"]);
  });

  it.each([
    [["--host", "0.0.0.0"], /--token-file/],
    [["--token-file", "missing"], /missing: the token file cannot be read/],
    [["--tls-cert", "cert.pem"], /belong together/],
    [["--tls-cert", "no-cert.pem", "--tls-key", "no-key.pem"], /cannot be read/],
    [
      ["--tls-cert", "README.md", "--tls-key", "README.md"],
      /README\.md and README\.md are no certificate and key/,
    ],
    [["--allow-origin", "foo bar"], /foo bar: an allowed origin must be/],
    [["--root", "README.md"], /README\.md: cannot be made the hub's folder/],
    [["--port", "70000"], /port from 0 to 65535/],
    [["--public-url", "nonsense"], /public address/],
    [["--rot", "x"], /unknown option/],
  ])("refuses %j", async (args, message) => {
    const { code, err } = await cli(["hub", "serve", "--root", join(scratch(), "hub"), ...args]);
    expect({ code, err }).toEqual({ code: 2, err: expect.stringMatching(message) });
  });

  it("wants a folder, and one that is free", async () => {
    expect(await cli(["hub", "serve"])).toMatchObject({
      code: 2,
      err: expect.stringMatching(/'--root <folder>' is missing/),
    });
    const hub = await openHubWithRepo();
    expect(await cli(["hub", "serve", "--root", hub.root])).toMatchObject({
      code: 2,
      err: expect.stringMatching(/another server serves this folder/),
    });
    const endpoint = new URL(await hub.server.listen());
    expect(
      await cli(["hub", "serve", "--root", join(scratch(), "hub"), "--port", endpoint.port]),
    ).toMatchObject({
      code: 2,
      err: expect.stringMatching(/is in use/),
    });
    expect((await cli(["hub", "dance"])).code).toBe(2);
  });
});

describe("hub token", () => {
  it("prints a new token once and keeps its hash", async () => {
    const path = join(scratch(), "tokens");
    const { code, out } = await cli([
      "hub",
      "token",
      "--token-file",
      path,
      "--name",
      "alice",
      "--repos",
      "lab/*",
      "--repos",
      "x/y",
    ]);
    expect(code).toBe(0);
    expect(readFileSync(path, "utf8")).toBe(`alice write sha256:${sha256(out.trim())} lab/*,x/y\n`);
    expect((await cli(["hub", "token", "--token-file", path, "--name", "b", "--role", "admin"])).code).toBe(
      2,
    );
    expect((await cli(["hub", "token", "--token-file", path])).code).toBe(2);
  });
});

describe("hub check", () => {
  it("says whether a store is sound", async () => {
    const hub = await openHubWithRepo();
    await hub.commit("lab/run", [file("a", "x")]);
    expect(await cli(["hub", "check", "--root", hub.root])).toEqual({
      code: 0,
      out: "1 repositories, 1 branches, 2 commits, 1 contents: sound\n",
      err: "",
    });
    const blob = join("2d", "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881");
    writeFileSync(join(hub.root, "repos/models/lab/run/blobs", blob), "y");
    const { code, out } = await cli(["hub", "check", "--root", hub.root]);
    expect([code, out]).toEqual([1, expect.stringMatching(/another hash\n.*: 1 problem\(s\)\n$/)]);
  });

  it("says so if there is no store", async () => {
    expect((await cli(["hub", "check", "--root", join(scratch(), "none")])).code).toBe(2);
  });
});
