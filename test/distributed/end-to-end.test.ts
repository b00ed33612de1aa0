// Two training nodes and an aggregator, each with a connection of its own to the hub server of this package: what one
// learned reaches the others, and every delta has exactly one fate.

import { trainFromConfig } from "speedtronic";
import { afterEach, expect, test } from "vitest";
import {
  Aggregator,
  diskSurroundings,
  HubTransport,
  parseDeltaPath,
} from "../../src/distributed/index.node.js";
import { openSafetensors } from "../../src/formats/safetensors/index.js";
import { createHubServer } from "../../src/hub-server/index.js";
import { recordEvents, temporaryFolder, tinyConfig, tinyModelFile } from "../train/helpers.js";

const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function connector() {
  const server = await createHubServer({ root: temporaryFolder(), port: 0 });
  closers.push(() => server.close());
  const endpoint = await server.listen();
  return () => {
    const transport = new HubTransport({ endpoint, repo: "lab/run" });
    closers.push(() => transport.close());
    return transport;
  };
}

test("two nodes and an aggregator train one model over a hub", async () => {
  const connect = await connector();
  const weights = await tinyModelFile();
  const aggregator = await Aggregator.start({
    transport: connect(),
    surroundings: await diskSurroundings(temporaryFolder()),
    settings: {
      outerLr: 0.7,
      outerMomentum: 0.5,
      momentumWarmupRounds: 2,
      merge: "tokens",
      stalenessLimit: 100,
      stalenessDiscount: 1,
      clipFactor: null,
      quorum: 1,
      graceMs: 0,
      keepVersions: 1000,
    },
    masterId: "master",
    pollIntervalMs: 20,
    bootstrap: { writeState: async (sink) => sink.write(weights) },
  });
  expect(aggregator.outerStep).toBe(0);
  const stop = new AbortController();
  const aggregation = aggregator.runUntil({ signal: stop.signal });
  const nodes = ["a", "b"].map((nodeId, seed) => {
    const events = recordEvents();
    const config = {
      ...tinyConfig(temporaryFolder(), { run: { max_steps: 12, seed } }),
      distributed: {
        enabled: true,
        role: "worker" as const,
        repo_id: "lab/run",
        node_id: nodeId,
        inner_steps: 3,
        poll_interval: 0.02,
        delta_upload_shutdown_timeout: 60,
      },
    };
    return { events, done: trainFromConfig(config, { transport: connect(), hooks: [events.hook] }) };
  });
  for (const { done } of nodes) expect((await done).steps).toBe(12);
  stop.abort();
  await aggregation;
  await aggregator.drain();

  const hub = connect();
  const revision = await hub.head();
  const sent = (await hub.list(revision, "nodes/"))
    .map(({ path }) => parseDeltaPath(path))
    .filter((path) => path.kind === "delta");
  const decided = aggregator.run.ledger.entries;
  expect(new Set(sent.map(({ nodeId }) => nodeId))).toEqual(new Set(["a", "b"]));
  expect(decided.map(({ path }) => path).sort()).toEqual(sent.map(({ path }) => path).sort());
  for (const entry of decided) expect(["applied", "merged"]).toContain(entry.fate);
  expect(aggregator.outerStep).toBeGreaterThan(0);
  for (const { events } of nodes) {
    expect(events.of("global_installed").length).toBeGreaterThan(0);
  }
  const before = await openSafetensors({
    sizeBytes: weights.byteLength,
    read: async (offset, length) => weights.slice(offset, offset + length),
  });
  const after = await openSafetensors(await hub.open(revision, "global/latest.safetensors"));
  expect([...after.entries.keys()]).toEqual([...before.entries.keys()]);
  const name = [...after.entries.keys()][0]!;
  expect((await after.read(name)).bytes).not.toEqual((await before.read(name)).bytes);
  await after.close();
});
