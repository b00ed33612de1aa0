// The connector to hubs keeps the contract, on a real socket against the hub server of this package.

import { afterAll } from "vitest";
import { HubTransport } from "../../../src/distributed/transports/hub.js";
import { createHubServer } from "../../../src/hub-server/index.js";
import { ALICE, scratch, writeTokens } from "../../hub-server/harness.js";
import { describeTransport } from "./contract-suite.js";

const closers: (() => Promise<unknown>)[] = [];
afterAll(async () => {
  for (const close of closers.reverse()) await close();
});

let endpoint: Promise<string> | undefined;
let repositories = 0;

async function serve(): Promise<string> {
  const server = await createHubServer({ root: scratch(), port: 0, tokenFile: writeTokens(scratch()) });
  closers.push(() => server.close());
  return server.listen();
}

describeTransport("hub", async () => {
  endpoint ??= serve();
  const address = await endpoint;
  const repo = `lab/run${repositories++}`;
  return {
    connect() {
      const transport = new HubTransport({ endpoint: address, repo, token: ALICE });
      closers.push(() => transport.close());
      return transport;
    },
  };
});
