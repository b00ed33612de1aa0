// Sharing a corpus, from the leases in the record to the samples that nodes train: with the same nodes all along none is
// trained by two; whoever comes, goes or crashes, little is repeated and nothing is left out.

import { describe, expect, test } from "vitest";
import { leasesOf, parseLeases } from "../../../src/distributed/protocol/index.js";
import { leaseFields, type RecordFields } from "../../../src/distributed/protocol/lease-fields.js";
import { encodeShardReport } from "../../../src/distributed/protocol/shard-report.js";
import { DataFleet } from "./data-fleet.js";

/** Mulberry32: numbers from 0 to below 1. */
function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

const seeds = Array.from({ length: 16 }, (_, i) => i + 1);

/** Three or four nodes that have all installed leases of their own. */
function fleetWithLeases(seed: number) {
  const random = seeded(seed);
  const below = (count: number) => Math.floor(random() * count);
  const fleet = new DataFleet({ samples: 401 + below(200), shardCount: 48 + below(40), random });
  const count = 3 + below(2);
  for (let i = 0; i < count; i++) fleet.join(`node-${i}`, 2 + below(5));
  while ([...fleet.nodes.values()].some(({ mode }) => mode !== "leases")) fleet.play();
  return { fleet, random, below, begun: fleet.round + 1 };
}

function playUntil(fleet: DataFleet, epoch: number): void {
  while (fleet.table.epochs[0]!.epoch < epoch) {
    if (fleet.round > 2000) throw new Error(`epoch ${epoch} does not come`);
    fleet.play();
  }
}

const kinds = ["join", "leave", "crash", "restart"] as const;

/** Something happens to a node. The most shards that it may cost: all that the node ever held at once. */
function disturb(fleet: DataFleet, kind: (typeof kinds)[number], name: string, below: (n: number) => number) {
  if (kind === "join") {
    const { id } = fleet.join(name, 2 + below(5));
    return () => fleet.largestLease.get(id) ?? 0;
  }
  const settled = [...fleet.nodes.values()].filter(({ id }) => fleet.largestLease.has(id));
  const node = settled[below(settled.length)]!;
  fleet.nodes.delete(node.id);
  // Between two rounds everything is sent: something is lost only in the middle of one.
  if (kind !== "leave") node.train(fleet.round);
  if (kind === "restart") {
    for (let rounds = below(16); rounds > 0; rounds--) fleet.play();
    node.restart();
    fleet.nodes.set(node.id, node);
  }
  return () => fleet.largestLease.get(node.id)!;
}

describe("nodes that share a corpus", () => {
  test("no sample is trained by two while the same nodes are there, and every one is trained", () => {
    for (const seed of seeds) {
      const { fleet, begun } = fleetWithLeases(seed);
      playUntil(fleet, 3);
      expect([seed, ...fleet.shared(begun).keys()]).toEqual([seed]);
      expect([seed, ...fleet.leftOut()]).toEqual([seed]);
    }
  });

  test.each(kinds)("a %s repeats at most one lease, and leaves nothing out", (kind) => {
    let repeated = 0;
    for (const seed of seeds) {
      const { fleet, below, begun } = fleetWithLeases(seed);
      for (let rounds = 2 + below(30); rounds > 0; rounds--) fleet.play();
      const most = disturb(fleet, kind, "new", below);
      playUntil(fleet, fleet.table.epochs[0]!.epoch + 2);
      const shared = fleet.shared(begun).size;
      repeated += shared;
      expect([seed, shared, shared <= most()]).toEqual([seed, shared, true]);
      expect([seed, ...fleet.leftOut()]).toEqual([seed]);
    }
    // Else nothing was at stake.
    expect(repeated).toBeGreaterThan(0);
  });

  test("many of these in one run repeat at most a lease each, and leave nothing out", () => {
    for (const seed of seeds) {
      const { fleet, below, begun } = fleetWithLeases(seed);
      const costs: (() => number)[] = [];
      for (let i = 0; i < 8; i++) {
        for (let rounds = below(12); rounds > 0; rounds--) fleet.play();
        const kind = fleet.nodes.size < 3 ? "join" : kinds[below(kinds.length)]!;
        costs.push(disturb(fleet, kind, `new-${i}`, below));
      }
      playUntil(fleet, fleet.table.epochs[0]!.epoch + 2);
      const most = costs.reduce((sum, cost) => sum + cost(), 0);
      const shared = fleet.shared(begun).size;
      expect([seed, shared, shared <= most]).toEqual([seed, shared, true]);
      expect([seed, ...fleet.leftOut()]).toEqual([seed]);
    }
  });

  test("a node forgets what it trained in another cut of the corpus", () => {
    const fleet = new DataFleet({ samples: 100, shardCount: 10, masterShardCount: 16, random: () => 0 });
    const node = fleet.join("a", 30);
    node.train(1);
    node.send(0);
    node.train(1);
    node.send(99);
    expect(JSON.parse(fleet.underWay[1]!.shards).done).toHaveLength(1);
    fleet.publish();
    node.install();
    const { count, queue } = node.place.shards!;
    const held = [...fleet.table.epochs[0]!.leases.get("a")!];
    expect(count).toBe(16);
    expect(queue.map(([, shard]) => shard).sort((a, b) => a - b)).toEqual(held);
    // The delta that was under way is given up: its shards are none of this cut.
    node.pending.splice(0);
    node.send(1);
    expect(JSON.parse(fleet.underWay[1]!.shards)).toMatchObject({ shard_count: 16, done: [] });
  });

  test("a node that asks for everything gets its even part, and cannot report what others hold", () => {
    const plan = leaseFields({ shardCount: 40 });
    const corpus = { samples: 400, sha256: "a".repeat(64) };
    const delta = (nodeId: string, wanted: number, shards: readonly number[]) => {
      const done = [{ epoch: 0, shards }];
      const report = encodeShardReport({ corpus, shardCount: 40, wanted, done });
      return { path: nodeId, nodeId, contentId: "", sha256: "", weight: 1, shards: report };
    };
    const nodes = ["a", "b", "c", "d", "e"].map((id) => delta(id, id === "a" ? 40 : 2, []));
    const first = plan({ outerStep: 1, deltas: nodes }, {});
    const held = (fields: RecordFields, id: string) => leasesOf(parseLeases(fields.leases ?? null), id);
    const count = (fields: RecordFields, id: string) =>
      held(fields, id).reduce((sum, { shards }) => sum + shards.length, 0);
    expect(["a", "b", "c", "d", "e"].map((id) => count(first, id))).toEqual([16, 2, 2, 2, 2]);
    const all = Array.from({ length: 40 }, (_, i) => i);
    const second = plan({ outerStep: 2, deltas: [delta("a", 40, all)] }, first);
    for (const id of ["b", "c", "d", "e"]) expect(held(second, id)).toEqual(held(first, id));
    expect(parseLeases(second.leases ?? null).epochs[0]!.done).toHaveLength(32);
  });
});
