// A corpus that real training nodes share over a repository: who trains which sample, with the same nodes all along and
// with nodes that come, go and crash; and interruptions of a node that trains what is leased to it.

import { rmSync } from "node:fs";
import { join } from "node:path";
import { loadCheckpoint } from "speedtronic/checkpoint";
import { afterEach, describe, expect, test } from "vitest";
import {
  FolderTransport,
  MemoryRepository,
  MemoryTransport,
  type Transport,
} from "../../src/distributed/index.node.js";
import { temporaryFolder, weightHashes } from "./helpers.js";
import { CHECKPOINT_STEPS, LeaseFleet, STATE_FOLDER, type TrainingNode } from "./lease-fleet.js";

const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

const SAMPLES = 79;
const SHARDS = 26;

async function newFleet(connect: () => Transport = inMemory()): Promise<LeaseFleet> {
  const fleet = await LeaseFleet.start({ samples: SAMPLES, shardCount: SHARDS, connect });
  closers.push(() => fleet.close());
  return fleet;
}

function inMemory() {
  const repository = new MemoryRepository({ name: "run" });
  return () => new MemoryTransport(repository);
}

function inFolder() {
  const path = temporaryFolder();
  return () => new FolderTransport({ root: path });
}

/** Every second node in turn hears of a version too late to train on by it. */
function someAreSlow(fleet: LeaseFleet) {
  return () => [...fleet.nodes.keys()].filter((_, i) => (fleet.round + i) % 3 === 0);
}

describe("real nodes that share a corpus", { timeout: 300_000 }, () => {
  test.each([
    ["memory", inMemory],
    ["a folder", inFolder],
  ])(
    "over %s, no sample is trained by two while the same nodes are there, and each is",
    async (_, connect) => {
      const fleet = await newFleet(connect());
      for (const [id, batchSize] of [
        ["a", 2],
        ["b", 3],
        ["c", 1],
      ] as const)
        await fleet.join(id, batchSize);
      const begun = await fleet.settle();
      await fleet.playUntil(fleet.table.epochs[0]!.epoch + 2, someAreSlow(fleet));
      const trained = fleet.trained.filter(({ round }) => round >= begun);
      expect(new Set(trained.map(({ node }) => node)).size).toBe(3);
      expect(fleet.shared(begun).samples).toEqual([]);
      expect(fleet.leftOut()).toEqual([]);
    },
  );

  test("a node that comes takes nothing twice that is leased, and nothing is left out", async () => {
    const fleet = await newFleet();
    for (const id of ["a", "b"]) await fleet.join(id, 2);
    const begun = await fleet.settle();
    await fleet.play();
    const { epoch } = fleet.table.epochs[0]!;
    await fleet.join("c", 2);
    await fleet.playUntil(epoch + 2, someAreSlow(fleet));
    expect(fleet.trained.some(({ node, from }) => node === "c" && from === "queue")).toBe(true);
    expect(fleet.shared(begun).shards.length).toBeLessThanOrEqual(fleet.largestLease.get("c")!);
    expect(fleet.leftOut()).toEqual([]);
  });

  test("a node that leaves costs at most its lease, and nothing is left out", async () => {
    const fleet = await newFleet();
    for (const id of ["a", "b", "c"]) await fleet.join(id, 2);
    const begun = await fleet.settle();
    await fleet.play();
    const { epoch } = fleet.table.epochs[0]!;
    const leaving = fleet.nodes.get("c")!;
    fleet.nodes.delete("c");
    await leaving.leave();
    await fleet.playUntil(epoch + 2, someAreSlow(fleet));
    expect(fleet.table.epochs[0]!.leases.has("c")).toBe(false);
    expect(fleet.shared(begun).shards.length).toBeLessThanOrEqual(fleet.largestLease.get("c")!);
    expect(fleet.leftOut()).toEqual([]);
  });

  test("a node that crashes costs at most its lease, and nothing is left out", async () => {
    const fleet = await newFleet();
    for (const id of ["a", "b", "c"]) await fleet.join(id, 2);
    const begun = await fleet.settle();
    await fleet.play();
    const { epoch } = fleet.table.epochs[0]!;
    const node = fleet.nodes.get("c")!;
    fleet.nodes.delete("c");
    const sent = fleet.samplesOfDelta.size;
    await node.steps(1);
    await node.crash();
    await fleet.playUntil(epoch + 2, someAreSlow(fleet));
    expect(fleet.table.epochs[0]!.leases.has("c")).toBe(false);
    const { shards } = fleet.shared(begun);
    expect(shards.length).toBeLessThanOrEqual(fleet.largestLease.get("c")!);
    expect(fleet.leftOut()).toEqual([]);
    // What it trained last reached nobody, so that somebody else did it.
    expect(sent).toBeGreaterThan(0);
    expect(shards.length).toBeGreaterThan(0);
  });

  test("a node that crashes and comes back costs at most its lease, and nothing is left out", async () => {
    const fleet = await newFleet();
    for (const id of ["a", "b", "c"]) await fleet.join(id, 2);
    const begun = await fleet.settle();
    await fleet.play();
    const { epoch } = fleet.table.epochs[0]!;
    const node = fleet.nodes.get("c")!;
    fleet.nodes.delete("c");
    await node.steps(1);
    const image = await node.crash();
    for (let i = 0; i < 3; i++) await fleet.play();
    fleet.nodes.set("c", await node.again(image));
    await fleet.playUntil(epoch + 2, someAreSlow(fleet));
    expect(fleet.shared(begun).shards.length).toBeLessThanOrEqual(fleet.largestLease.get("c")!);
    expect(fleet.leftOut()).toEqual([]);
  });

  test("what a node trained and lost with its files is trained again", async () => {
    const fleet = await newFleet();
    for (const id of ["a", "b"]) await fleet.join(id, 3);
    await fleet.settle();
    await fleet.play();
    const { epoch } = fleet.table.epochs[0]!;
    const node = fleet.nodes.get("b")!;
    // To a checkpoint with a finished shard that is in no delta.
    await node.steps(1);
    while (node.step % CHECKPOINT_STEPS !== 0) await fleet.play();
    await node.saved(node.step);
    const image = await node.crash();
    fleet.nodes.delete("b");
    for (let i = 0; i < 2; i++) await fleet.play();
    rmSync(join(image, STATE_FOLDER), { recursive: true });
    fleet.nodes.set("b", await node.again(image));
    await fleet.playUntil(epoch + 2);
    expect(fleet.leftOut()).toEqual([]);
  });
});

describe("a node that trains what is leased to it", { timeout: 300_000 }, () => {
  /** In a shard, at its end, among what is trained once more, and in the node's own walk. */
  const STOPS = [8, 9, 14, 19];
  const LAST = 23;

  /**
   * Two nodes until both have leases, and then one of them alone, without another version. `interrupt` is asked at the
   * stops, and gives the life that goes on.
   */
  async function train(interrupt: (node: TrainingNode, begun: number) => Promise<TrainingNode>) {
    const fleet = await newFleet();
    let node = await fleet.join("a", 2);
    await fleet.join("b", 2);
    await fleet.settle();
    const begun = node.losses.size;
    const sources: string[] = [];
    const losses = new Map(node.losses);
    const note = () => {
      for (const [step, loss] of node.losses) {
        // A step that is done again is the same step.
        expect([step, losses.get(step) ?? loss]).toEqual([step, loss]);
        losses.set(step, loss);
      }
    };
    for (const stop of [...STOPS, LAST]) {
      const target = begun + stop - 1;
      while (node.step < target) await node.steps(1);
      sources.push(fleet.trained.at(-1)!.from);
      if (stop === LAST) break;
      const before = node;
      node = await interrupt(before, begun);
      for (const [step, loss] of before.losses) losses.set(step, loss);
      note();
    }
    await node.leave();
    note();
    const { content } = await loadCheckpoint(node.outputDir);
    const { data } = content.trainer;
    return { losses: [...losses], data, sources, weights: await weightHashes(node.outputDir, begun + LAST) };
  }

  const whole = (node: TrainingNode) => Promise.resolve(node);

  test("leaves no trace of a stop in samples, losses and weights", async () => {
    const expected = await train(whole);
    const found = await train(async (node) => {
      await node.leave();
      return node.again();
    });
    expect(new Set(expected.sources)).toEqual(new Set(["queue", "spare", "walk"]));
    expect(found).toEqual(expected);
    expect(found.losses.length).toBeGreaterThan(LAST);
  });

  test("leaves no trace of a crash in samples, losses and weights", async () => {
    const expected = await train(whole);
    const found = await train(async (node, begun) => {
      // An earlier one holds the node from before it had leases.
      await node.saved(begun + 1);
      return node.again(await node.crash());
    });
    expect(found).toEqual(expected);
  });
});
