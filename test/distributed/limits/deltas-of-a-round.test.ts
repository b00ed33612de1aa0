// Known limits of how a master reads deltas: which file counts, how often it is read, and what a bad one costs.

import { describe, expect, test } from "vitest";
import { parseLedger } from "../../../src/distributed/protocol/ledger-text.js";
import { deltaFile, FakeRepository, start } from "../aggregator/repository.js";
import { f32 } from "../states.js";

const weights = [f32("w", 10)];
/** The global weights are the old ones minus the mean. */
const plain = { outerLr: 1, outerMomentum: 0 };
const path = (node: string, number: number | string) => `nodes/${node}/delta_${number}.safetensors`;
const delta = (nodeId: string, value: number, baseOuterStep = 0) =>
  deltaFile({ nodeId, baseOuterStep }, f32("w", value));
const fatesIn = (repository: FakeRepository) =>
  parseLedger(repository.files.get("global/ledger.json")!)
    .entries.map(({ path: file, fate, reason }) => `${file} ${fate} ${reason.split(":")[0]}`.trim())
    .sort();
const opens = (repository: FakeRepository) =>
  repository.calls.filter((call) => call.startsWith("open nodes/"));
const named = (events: readonly [string, Readonly<Record<string, unknown>>][], event: string) =>
  events.filter(([name]) => name === event).map(([, payload]) => payload);

describe("files of several nodes under one name", () => {
  test("L-01: each is added up as it is, in this round and after rounds that used the same name", async () => {
    const repository = new FakeRepository();
    const { aggregator } = await start({ repository, weights, settings: plain });
    repository.write({ [path("a", 7)]: await delta("a", 1), [path("b", 7)]: await delta("b", 2) });
    await aggregator.poll();
    expect(repository.weights).toEqual({ w: [10 - 1.5] });
    repository.write({ [path("c", 7)]: await delta("c", 4, 1), [path("d", 7)]: await delta("d", 5, 1) });
    await aggregator.poll();
    expect(repository.weights).toEqual({ w: [10 - 1.5 - 4.5] });
  });

  test("L-02: a short one is refused alone, and the others are not even read again", async () => {
    const repository = new FakeRepository();
    const { aggregator, events } = await start({ repository, weights, settings: plain });
    const whole = await delta("a", 1);
    repository.write({ [path("a", 7)]: whole, [path("b", 7)]: whole.slice(0, 60), [path("c", 7)]: "junk" });
    await aggregator.poll();
    expect(repository.weights).toEqual({ w: [9] });
    expect(named(events, "delta_rejected").map(({ node_id }) => node_id)).toEqual(["b", "c"]);
    expect(opens(repository)).toHaveLength(3);
  });

  test("L-02: one that is cut short while its round is made counts as it was read", async () => {
    const repository = new FakeRepository();
    const { aggregator } = await start({ repository, weights, settings: { ...plain, quorum: 2 } });
    const whole = await delta("a", 1);
    repository.write({ [path("a", 7)]: whole });
    await aggregator.poll();
    repository.write({ [path("b", 7)]: await delta("b", 2) });
    repository.faults = [() => repository.write({ [path("a", 7)]: whole.slice(0, 60) })];
    await aggregator.poll();
    expect(repository.weights).toEqual({ w: [8.5] });
    await aggregator.drain();
    expect(repository.weights).toEqual({ w: [8.5] });
  });
});

describe("one delta", () => {
  test("L-03: counts once, however many names it has", async () => {
    const repository = new FakeRepository();
    const { aggregator, events } = await start({ repository, weights, settings: plain });
    const bytes = await delta("a", 1);
    repository.write({ [path("a", 7)]: bytes, [path("a", "007")]: bytes, [path("a", 8)]: bytes });
    await aggregator.poll();
    await aggregator.poll();
    expect(repository.weights).toEqual({ w: [9] });
    expect(repository.record.outerStep).toBe(1);
    expect(named(events, "delta_path_skipped")).toMatchObject([{ path: path("a", "007") }]);
    expect(fatesIn(repository)).toEqual([`${path("a", 7)} applied`, `${path("a", 8)} rejected duplicate`]);
  });

  test("L-18: of new content under an old path is another one; the old content again is not", async () => {
    const repository = new FakeRepository();
    const { aggregator } = await start({ repository, weights, settings: plain });
    const first = await delta("a", 1);
    repository.write({ [path("a", 7)]: first });
    await aggregator.poll();
    // The same base: what a name and a base cannot tell apart.
    repository.write({ [path("a", 7)]: await delta("a", 2) });
    await aggregator.poll();
    expect(repository.weights).toEqual({ w: [7] });
    repository.write({ [path("a", 7)]: first, [path("a", 9)]: first });
    await aggregator.poll();
    await aggregator.drain();
    expect(repository.weights).toEqual({ w: [7] });
  });

  test("L-05: of zeros neither counts nor makes others count less", async () => {
    const repository = new FakeRepository();
    const { aggregator } = await start({ repository, weights, settings: plain });
    repository.write({ [path("a", 1)]: await delta("a", 1), [path("b", 1)]: await delta("b", 0) });
    await aggregator.poll();
    expect(repository.weights).toEqual({ w: [9] });
    expect(fatesIn(repository)).toEqual([`${path("a", 1)} applied`, `${path("b", 1)} rejected empty`]);
  });

  test("L-07: on a version that is too old, or was never published, does not count", async () => {
    const repository = new FakeRepository();
    const settings = { ...plain, stalenessLimit: 1, keepVersions: 9 };
    const { aggregator } = await start({ repository, weights, settings });
    for (let version = 0; version < 2; version++) {
      repository.write({ [path("a", version)]: await delta("a", 1, version) });
      await aggregator.poll();
    }
    repository.write({
      [path("a", 2)]: await delta("a", 1, 2),
      [path("b", 2)]: await delta("b", 50, 0),
      [path("c", 2)]: await delta("c", 70, 9),
      [path("d", 2)]: await delta("d", 90, -1),
    });
    await aggregator.poll();
    expect(repository.weights).toEqual({ w: [7] });
    expect(fatesIn(repository).slice(3)).toEqual([
      `${path("b", 2)} stale stale`,
      `${path("c", 2)} rejected unknown_base`,
      `${path("d", 2)} stale stale`,
    ]);
  });
});

describe("what was looked at", () => {
  test("L-13: a bad delta is fetched once and reported once, also by the next master", async () => {
    const repository = new FakeRepository();
    const first = await start({ repository, weights, settings: plain });
    repository.write({ [path("bad", 1)]: "junk" });
    for (let poll = 0; poll < 3; poll++) {
      repository.write({ [`notes/${poll}.txt`]: "the listing is another one" });
      await first.aggregator.poll();
    }
    expect(opens(repository)).toHaveLength(1);
    expect(named(first.events, "delta_rejected")).toHaveLength(1);
    repository.write({ [path("a", 1)]: await delta("a", 1) });
    await first.aggregator.poll();
    const second = await start({ repository, settings: plain });
    repository.calls.length = 0;
    repository.write({ "notes/last.txt": "again" });
    await second.aggregator.poll();
    expect(opens(repository)).toEqual([]);
    expect(named(second.events, "delta_rejected")).toEqual([]);
  });

  test("L-14: a round fetches new deltas only, and a master on a fresh disk none that were decided", async () => {
    const repository = new FakeRepository();
    const settings = { ...plain, keepVersions: 100 };
    let { aggregator } = await start({ repository, weights, settings });
    for (let version = 0; version < 4; version++) {
      repository.write({ [path("a", version)]: await delta("a", 1, version) });
      repository.calls.length = 0;
      await aggregator.poll();
      expect(opens(repository)).toEqual([`open ${path("a", version)}`]);
      ({ aggregator } = await start({ repository, settings }));
    }
    expect([...repository.files.keys()].filter((file) => file.startsWith("nodes/"))).toHaveLength(4);
    repository.calls.length = 0;
    await aggregator.poll();
    expect(opens(repository)).toEqual([]);
    expect(repository.weights).toEqual({ w: [6] });
  });
});
