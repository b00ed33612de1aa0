// Shards of the corpus: whatever comes and goes, none is left out, and little is trained twice.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { JsonValue } from "../../../src/distributed/index.js";
import {
  createLeases,
  encodeLeases,
  type LeaseTable,
  leasesOf,
  parseLeases,
  updateLeases,
  walkOrder,
} from "../../../src/distributed/protocol/index.js";

const json = (value: unknown) => JSON.parse(JSON.stringify(value)) as JsonValue;
const range = (count: number) => Array.from({ length: count }, (_, i) => i);

/** Nodes that train what is leased to them. Counts who trained what. */
class Crew {
  table: LeaseTable;
  readonly live = new Set<string>();
  /** By epoch and shard: who trained it. */
  readonly trained = new Map<string, string[]>();
  private readonly unreported = new Map<string, { epoch: number; shard: number }[]>();

  constructor(shardCount: number, leaseSize: number) {
    this.table = createLeases({ shardCount, leaseSize });
  }

  /** The node trains up to `count` shards of its lease that it has not done. */
  train(nodeId: string, count: number): void {
    const own = this.unreported.get(nodeId) ?? [];
    const todo = leasesOf(this.table, nodeId)
      .flatMap(({ epoch, shards }) => shards.map((shard) => ({ epoch, shard })))
      .filter(({ epoch, shard }) => !own.some((done) => done.epoch === epoch && done.shard === shard))
      .slice(0, count);
    for (const { epoch, shard } of todo) {
      const key = `${epoch}:${shard}`;
      this.trained.set(key, [...(this.trained.get(key) ?? []), nodeId]);
    }
    this.unreported.set(nodeId, [...own, ...todo]);
  }

  /** What it did and did not report is lost. */
  crash(nodeId: string): void {
    this.live.delete(nodeId);
    this.unreported.delete(nodeId);
  }

  /** A new version: reports of the nodes that are there, and a new table, through its text. */
  publish(): void {
    const done = [...this.unreported].flatMap(([nodeId, list]) =>
      list.map(({ epoch, shard }) => ({ nodeId, epoch, shards: [shard] })),
    );
    this.unreported.clear();
    this.table = parseLeases(json(encodeLeases(updateLeases(this.table, { live: [...this.live], done }))));
  }

  get firstOpenEpoch(): number {
    return this.table.epochs[0]!.epoch;
  }
}

const sizes = fc.record({ shards: fc.integer({ min: 1, max: 40 }), lease: fc.integer({ min: 1, max: 8 }) });
const acts = fc.array(fc.tuple(fc.nat(9), fc.nat(4)), { minLength: 10, maxLength: 150 });
const runs = { numRuns: 200, seed: 20260105 };

test("L-53 with stable membership no shard is trained twice in an epoch, and none left out", () => {
  const property = fc.property(
    sizes,
    fc.integer({ min: 1, max: 4 }),
    acts,
    ({ shards, lease }, nodes, choices) => {
      const crew = new Crew(shards, lease);
      for (const i of range(nodes)) crew.live.add(`n${i}`);
      crew.publish();
      for (const [choice, who] of choices) {
        if (choice < 3) crew.publish();
        else crew.train(`n${who % nodes}`, choice - 2);
      }
      expect([...crew.trained.values()].filter((by) => by.length > 1)).toEqual([]);
      for (const epoch of range(crew.firstOpenEpoch)) {
        expect(range(shards).filter((shard) => !crew.trained.has(`${epoch}:${shard}`))).toEqual([]);
      }
    },
  );
  fc.assert(property, runs);
});

test("L-53 after joins and crashes at most one lease per crash is repeated, and none left out", () => {
  let repeats = 0;
  const property = fc.property(sizes, acts, ({ shards, lease }, choices) => {
    const crew = new Crew(shards, lease);
    crew.live.add("n0");
    crew.publish();
    let crashes = 0;
    for (const [choice, who] of choices) {
      const nodeId = `n${who}`;
      if (choice < 3) crew.publish();
      else if (choice === 3) crew.live.add(nodeId);
      else if (choice === 4 && crew.live.has(nodeId)) {
        crew.crash(nodeId);
        crashes++;
        // The master notices with its next version.
        crew.publish();
      } else if (crew.live.has(nodeId)) crew.train(nodeId, choice - 3);
    }
    const extra = [...crew.trained.values()].reduce((sum, by) => sum + by.length - 1, 0);
    repeats += extra;
    expect(extra).toBeLessThanOrEqual(crashes * lease);
    for (const epoch of range(crew.firstOpenEpoch)) {
      expect(range(shards).filter((shard) => !crew.trained.has(`${epoch}:${shard}`))).toEqual([]);
    }
  });
  fc.assert(property, runs);
  expect(repeats).toBeGreaterThan(0);
});

describe("the table", () => {
  const two = updateLeases(createLeases({ shardCount: 8, leaseSize: 4 }), { live: ["b", "a"], done: [] });

  test("shares all shards evenly, in the same way everywhere", () => {
    const shares = ["a", "b"].map((nodeId) => leasesOf(two, nodeId));
    expect(shares.map(([lease]) => lease!.shards.length)).toEqual([4, 4]);
    expect(shares.flatMap(([lease]) => lease!.shards).sort()).toEqual(range(8));
    expect(
      updateLeases(createLeases({ shardCount: 8, leaseSize: 4 }), { live: ["a", "b", "a"], done: [] }),
    ).toEqual(two);
    expect(leasesOf(two, "c")).toEqual([]);
  });

  test("a node that is done goes on with the next epoch while another works", () => {
    const [lease] = leasesOf(two, "a");
    const next = updateLeases(two, { live: ["a", "b"], done: [{ nodeId: "a", ...lease! }] });
    expect(next.epochs.map(({ epoch }) => epoch)).toEqual([0, 1]);
    expect(leasesOf(next, "a").map(({ epoch, shards }) => [epoch, shards.length])).toEqual([[1, 4]]);
    expect(leasesOf(next, "b")).toEqual(leasesOf(two, "b"));
  });

  test("L-56: who is gone loses its shards to others; its late report counts only where nobody took over", () => {
    const [lease] = leasesOf(two, "a");
    const report = { nodeId: "a", ...lease! };
    const gone = updateLeases(two, { live: ["b"], done: [] });
    expect(gone.epochs[0]!.leases.get("b")).toHaveLength(4);
    expect(updateLeases(gone, { live: ["b"], done: [report] }).epochs[0]!.done).toEqual(
      [...lease!.shards].sort(),
    );
    const bDone = { nodeId: "b", ...leasesOf(two, "b")[0]! };
    const taken = updateLeases(gone, { live: ["b"], done: [bDone] });
    expect(updateLeases(taken, { live: ["b"], done: [report] })).toEqual(taken);
  });

  test("reports of what does not exist change nothing", () => {
    const done = [
      { nodeId: "a", epoch: 0, shards: [8, -1, 0.5, Number.NaN] },
      { nodeId: "a", epoch: 7, shards: [0] },
    ];
    expect(updateLeases(two, { live: ["a", "b"], done })).toEqual(two);
  });

  test("survives a time without any node", () => {
    const empty = updateLeases(two, { live: [], done: [] });
    expect(empty.epochs).toEqual([{ epoch: 0, done: [], leases: new Map() }]);
    expect(updateLeases(empty, { live: ["a", "b"], done: [] })).toEqual(two);
  });

  test.each([
    [{ shardCount: 0, leaseSize: 1 }, "shardCount is 0"],
    [{ shardCount: 8, leaseSize: 1.5 }, "leaseSize is 1.5"],
  ])("settings %o are refused", (settings, message) => {
    expect(() => createLeases(settings)).toThrow(message);
  });
});

describe("in the record", () => {
  const good = {
    shard_count: 8,
    lease_size: 2,
    epochs: [{ epoch: 3, done: "0-1,4", leases: { b: "2", a: "3,5" } }],
  };
  const epoch = good.epochs[0]!;

  test("is short, and comes back", () => {
    const table = parseLeases(json(good));
    expect(table.epochs[0]!.done).toEqual([0, 1, 4]);
    expect([...table.epochs[0]!.leases]).toEqual([
      ["a", [3, 5]],
      ["b", [2]],
    ]);
    expect(json(encodeLeases(table))).toEqual(good);
  });

  test.each([
    [[], "leases must be an object"],
    [{ ...good, shard_count: 2e6 }, ".shard_count must be"],
    [{ ...good, lease_size: 0 }, ".lease_size must be"],
    [{ ...good, epochs: [] }, ".epochs must be a list"],
    [{ ...good, epochs: [3] }, ".epochs[0] must be an object"],
    [{ ...good, epochs: [{ ...epoch, epoch: -1 }] }, ".epochs[0].epoch must be"],
    [{ ...good, epochs: [{ ...epoch, done: "1-0" }] }, ".epochs[0].done must be ranges"],
    [{ ...good, epochs: [{ ...epoch, done: "0,1" }] }, ".epochs[0].done must be ranges"],
    [{ ...good, epochs: [{ ...epoch, done: "1,0" }] }, ".epochs[0].done must be ranges"],
    [{ ...good, epochs: [{ ...epoch, done: "8" }] }, ".epochs[0].done must be ranges"],
    [{ ...good, epochs: [{ ...epoch, done: "0-99999999999" }] }, ".epochs[0].done must be ranges"],
    [{ ...good, epochs: [{ ...epoch, done: 3 }] }, ".epochs[0].done must be ranges"],
    [{ ...good, epochs: [{ ...epoch, leases: [] }] }, ".leases must be an object"],
    [{ ...good, epochs: [{ ...epoch, leases: { a: "4" } }] }, "shard 4 is given twice"],
    [{ ...good, epochs: [{ ...epoch, leases: { a: "" } }] }, "must not be empty"],
    [{ ...good, epochs: [{ ...epoch, leases: { "a/b": "2" } }] }, "has a slash"],
    [{ ...good, epochs: [epoch, { ...epoch, epoch: 5 }] }, ".epochs[1].epoch must follow"],
  ])("what is not ours is refused: %j", (value, message) => {
    expect(() => parseLeases(json(value), "global/step_count.json")).toThrow(
      expect.objectContaining({ code: "protocol.invalid_leases", message: expect.stringContaining(message) }),
    );
  });
});

test("L-53 without a lease each node walks all shards in an order of its own, another one each epoch", () => {
  const orders = [walkOrder("a", 0), walkOrder("b", 0), walkOrder("a", 1)];
  for (const order of orders) expect([...order].sort((a, b) => a - b)).toEqual(range(1024));
  expect(new Set(orders.map(String)).size).toBe(3);
  expect(walkOrder("a", 0)).toEqual(orders[0]);
  expect(walkOrder("a", 5, 3)).toHaveLength(3);
});
