// Weights of a private run must not end up where everybody reads. `speedtronic init`: see test/cli/init.test.ts.

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, test } from "vitest";
import { HubTransport } from "../../src/distributed/transports/hub.js";
import { REPO, startHub } from "../cli/fleet.js";
import { sampleText, scratchFolder, writeTinyConfig } from "../cli/harness.js";

const refusal = /lab\/run at http\S+ can be read by everybody.*make it private.*--public-ok/;

test("security: a run is not begun in a public repository, unless that is meant", async () => {
  const hub = await startHub();
  await fetch(`${hub.endpoint}/api/repos/create`, {
    method: "POST",
    body: JSON.stringify({ name: "run", organization: "lab", visibility: "public" }),
  });
  const head = await hub.connect().head();
  const config = writeTinyConfig(scratchFolder(), sampleText, `distributed: {repo_id: ${REPO}}\n`);
  const refused = await hub.cli(["aggregate", "--config", config, "--drain"]);
  expect(refused).toMatchObject({ code: 6, err: expect.stringMatching(refusal) });
  expect(await hub.connect().head()).toBe(head);
  expect((await hub.cli(["aggregate", "--config", config, "--drain", "--public-ok"])).code).toBe(0);
});

test("security: a hub that makes public what was asked to be private is found out before anything is sent", async () => {
  const asked: string[] = [];
  let body = "";
  const server = createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`);
    request.on("data", (data) => {
      if (request.method === "POST") body += String(data);
    });
    request.on("end", () => {
      response.writeHead(200, { "Content-Type": "application/json" });
      response.end(request.method === "POST" ? "{}" : '{"private":false}');
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  try {
    const transport = new HubTransport({ endpoint, repo: "lab/run" });
    expect(await transport.create()).toEqual({ created: true, isPublic: true });
    expect(JSON.parse(body)).toMatchObject({ visibility: "private" });
    expect(asked).toEqual(["POST /api/repos/create", "GET /api/models/lab/run?expand[]=private"]);
  } finally {
    server.closeAllConnections();
    server.close();
  }
});
