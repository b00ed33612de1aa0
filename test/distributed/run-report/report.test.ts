// How a run stands, told from its repository: runs of our masters, of Python's, and repositories that are odd.

import { describe, expect, test } from "vitest";
import { sha256Hasher } from "../../../src/distributed/node/aggregator-disk.node.js";
import { RunReporter } from "../../../src/distributed/node/run-report.js";
import { ORDERED_FROM } from "../../../src/distributed/protocol/numbers.js";
import { deltaFile, FakeRepository, start } from "../aggregator/repository.js";
import { f32 } from "../states.js";

const weights = [f32("w", 1, -2, 0.5)];
const reporterOf = (transport: FakeRepository) =>
  new RunReporter({ transport, hasher: sha256Hasher, now: () => Date.UTC(2026, 0, 1) });

const delta = (nodeId: string, baseOuterStep: number, extra: Record<string, string> = {}, w = 1) =>
  deltaFile({ nodeId, baseOuterStep, extra }, f32("w", w, 2, -0.25));

/** Version 2: a and b in round 1, a alone in round 2; then b sends another from version 1, and c a first one. */
async function smallRun(): Promise<FakeRepository> {
  const repository = new FakeRepository();
  const { aggregator } = await start({ repository, weights, settings: { stalenessLimit: 0 } });
  const work = { tokens: "4096", steps: "8" };
  repository.write({
    "nodes/a/delta_1.safetensors": await delta("a", 0, work),
    "nodes/b/delta_1.safetensors": await delta("b", 0, work, 2),
  });
  await aggregator.runUntil({ rounds: 1 });
  repository.write({
    [`nodes/a/delta_${7 * ORDERED_FROM + 5}.safetensors`]: await delta("a", 1, { tokens: "99" }, 3),
  });
  await aggregator.runUntil({ rounds: 1 });
  repository.write({
    "nodes/b/delta_2.safetensors": await delta("b", 1, work, 4),
    "nodes/c/delta_1.safetensors": await delta("c", -1, {}, 5),
  });
  return repository;
}

describe("a run of our master", () => {
  test("L-56: version, members, what waits and what became of the rest", async () => {
    const report = await reporterOf(await smallRun()).read();
    expect(report.version).toEqual({
      outerStep: 2,
      updatedAt: "2026-01-01T00:00:00+00:00",
      master: { masterId: "master-1", term: 1, life: "8888888888888888" },
      hasLedger: true,
      deltas: 1,
      outerLr: 0.7,
      outerMomentum: 0.9,
    });
    expect(
      report.members.map(({ nodeId, lastDelta, staleness, pending, applied }) => [
        nodeId,
        lastDelta?.number,
        lastDelta?.facts,
        lastDelta?.fate?.outerStep,
        staleness,
        pending,
        applied,
      ]),
    ).toEqual([
      ["a", 7 * ORDERED_FROM + 5, { baseOuterStep: 1, tokens: 99, steps: undefined }, 2, 1, 0, 2],
      ["b", 2, { baseOuterStep: 1, tokens: 4096, steps: 8 }, undefined, 1, 1, 1],
      ["c", 1, { baseOuterStep: -1, tokens: undefined, steps: undefined }, undefined, undefined, 1, 0],
    ]);
    expect(report.pending.map(({ path }) => path)).toEqual([
      "nodes/b/delta_2.safetensors",
      "nodes/c/delta_1.safetensors",
    ]);
    expect(report.fates.map(({ nodeId, outerStep, fate }) => `${nodeId} ${fate} ${outerStep}`)).toEqual([
      "a applied 2",
      "b applied 1",
      "a applied 1",
    ]);
    expect(report.notes).toEqual([]);
    expect(report.commitsLastHour).toBeUndefined();
  });

  test("a node whose files are gone is still known by its fates", async () => {
    const repository = await smallRun();
    const mine = [...repository.files.keys()].filter((path) => path.startsWith("nodes/a/"));
    repository.write(Object.fromEntries(mine.map((path) => [path, null])));
    const { members } = await reporterOf(repository).read();
    expect(members[0]).toMatchObject({ nodeId: "a", lastDelta: undefined, staleness: undefined, applied: 2 });
  });

  test("of a node that began to count anew, the delta on the newest base counts as its last", async () => {
    const repository = await smallRun();
    const again = ORDERED_FROM + 99;
    repository.write({ [`nodes/a/delta_${again}.safetensors`]: await delta("a", 2, {}, 9) });
    const { members } = await reporterOf(repository).read();
    expect(members[0]).toMatchObject({ nodeId: "a", lastDelta: { number: again }, staleness: 0, pending: 1 });
  });

  test("shards that are leased", async () => {
    const repository = await smallRun();
    const record = JSON.parse(repository.text("global/step_count.json"));
    record.leases = {
      shard_count: 8,
      lease_size: 2,
      epochs: [{ epoch: 0, done: "0-1", leases: { a: "2-4", d: "5" } }],
    };
    repository.write({ "global/step_count.json": JSON.stringify(record) });
    const { members } = await reporterOf(repository).read();
    expect(members.map(({ nodeId, shards }) => [nodeId, shards])).toEqual([
      ["a", 3],
      ["b", 0],
      ["c", 0],
      ["d", 1],
    ]);
  });

  test("reads no weights, each header once, and nothing while nothing is committed", async () => {
    const repository = await smallRun();
    const reporter = reporterOf(repository);
    repository.calls.length = 0;
    const first = await reporter.read();
    expect(repository.calls.filter((call) => /global\/.*safetensors/.test(call))).toEqual([]);
    repository.calls.length = 0;
    expect(await reporter.read()).toBe(first);
    expect(repository.calls).toEqual(["head"]);
    repository.write({ "nodes/c/delta_2.safetensors": await delta("c", 2, {}, 6) });
    repository.calls.length = 0;
    const second = await reporter.read();
    expect(repository.calls.filter((call) => call.startsWith("open"))).toEqual([
      "open nodes/c/delta_2.safetensors",
    ]);
    expect(second.pending.length).toBe(3);
  });
});

describe("other repositories", () => {
  test("a Python master: without a ledger, what was made from the newest version waits", async () => {
    const repository = await smallRun();
    const { outer_step, model_file, updated_at } = JSON.parse(repository.text("global/step_count.json"));
    repository.write({
      "global/step_count.json": JSON.stringify({ outer_step, model_file, updated_at }),
      "global/ledger.json": null,
      "global/history.json": null,
      "nodes/c/delta_2.safetensors": await delta("c", 2, {}, 6),
    });
    const { version, pending, fates, members } = await reporterOf(repository).read();
    expect(version).toEqual({
      outerStep: 2,
      updatedAt: "2026-01-01T00:00:00+00:00",
      master: undefined,
      hasLedger: false,
      deltas: undefined,
      outerLr: undefined,
      outerMomentum: undefined,
    });
    expect(pending.map(({ path }) => path)).toEqual(["nodes/c/delta_2.safetensors"]);
    expect(fates).toEqual([]);
    expect(members.map(({ nodeId, staleness }) => [nodeId, staleness])).toEqual([
      ["a", 1],
      ["b", 1],
      ["c", 0],
    ]);
  });

  test("no version yet: all deltas wait", async () => {
    const repository = new FakeRepository();
    repository.write({ "nodes/a/delta_1.safetensors": await delta("a", -1) });
    const { version, pending, members } = await reporterOf(repository).read();
    expect({ version, pending: pending.length, members: members.length }).toEqual({
      version: undefined,
      pending: 1,
      members: 1,
    });
  });

  test("what is odd becomes a note, and the rest is reported", async () => {
    const repository = await smallRun();
    repository.write({
      "nodes/d/delta_007.safetensors": Uint8Array.of(1),
      "nodes/e/delta_1.safetensors": Uint8Array.of(1, 2, 3),
      "global/ledger.json": "{}",
    });
    const { notes, members } = await reporterOf(repository).read();
    expect(notes).toEqual([
      expect.stringMatching(/global\/ledger\.json has SHA-256/),
      'nodes/d/delta_007.safetensors is no delta: its step "007" has a leading zero',
      "nodes/e/delta_1.safetensors cannot be read as a delta",
    ]);
    expect(members.map(({ nodeId }) => nodeId)).toEqual(["a", "b", "c", "e"]);
  });
});
