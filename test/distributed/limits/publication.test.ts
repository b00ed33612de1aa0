// Known limits of how a master begins, publishes and goes on: what fails in between must leave one run, with one line
// of versions, each of which is whole.

import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { diskSurroundings } from "../../../src/distributed/node/aggregator-disk.node.js";
import { TransportError } from "../../../src/distributed/transports/errors.js";
import { deltaFile, FakeClock, FakeRepository, start } from "../aggregator/repository.js";
import { newBench, publish, TestModel } from "../node/bench.js";
import { f32 } from "../states.js";

const weights = [f32("w", 10)];
const plain = { outerLr: 1, outerMomentum: 0 };

async function send(repository: FakeRepository, number: number, value = 1, nodeId = "a"): Promise<void> {
  const base = repository.record.outerStep;
  const bytes = await deltaFile({ nodeId, baseOuterStep: base }, f32("w", value));
  repository.write({ [`nodes/${nodeId}/delta_${number}.safetensors`]: bytes });
}

const copyOf = (folder: string) => {
  const copy = mkdtempSync(join(tmpdir(), "limits-"));
  onTestFinished(() => rmSync(copy, { recursive: true, force: true }));
  cpSync(folder, copy, { recursive: true });
  return copy;
};

describe("a round that fails", () => {
  test("L-11: on the way leaves weights and momentum as they were, and the next try makes the same version", async () => {
    const [repository, quiet] = [new FakeRepository(), new FakeRepository()];
    const folder = mkdtempSync(join(tmpdir(), "limits-"));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const whole = await diskSurroundings(folder, new FakeClock());
    let failures = 0;
    const surroundings = {
      ...whole,
      dateMs: () => 0,
      scratch: {
        ...whole.scratch,
        find: (name: string) => whole.scratch.find(name),
        remove: (name: string) => whole.scratch.remove(name),
        list: (prefix: string) => whole.scratch.list(prefix),
        write: async (...[name, write]: Parameters<typeof whole.scratch.write>) => {
          if (!name.includes("momentum_") || failures-- <= 0) return whole.scratch.write(name, write);
          throw new TransportError("unavailable", "the disk does not answer");
        },
      },
    };
    const momentum = { outerLr: 0.5, outerMomentum: 0.9 };
    const { aggregator } = await start({ repository, weights, settings: momentum, surroundings });
    const reference = await start({ repository: quiet, weights, settings: momentum });
    for (const number of [1, 2]) {
      failures = 2;
      await send(repository, number);
      await aggregator.runUntil({ rounds: 1 });
      await send(quiet, number);
      await reference.aggregator.poll();
      expect(failures).toBe(-1);
    }
    expect(repository.record.outerStep).toBe(2);
    expect(repository.weights).toEqual(quiet.weights);
    expect(repository.files.get("global/momentum_000002.safetensors")).toEqual(
      quiet.files.get("global/momentum_000002.safetensors"),
    );
  });

  test("L-25: to be published changes nothing in the repository, and what came meanwhile is in the version too", async () => {
    const repository = new FakeRepository();
    const { aggregator } = await start({ repository, weights, settings: plain });
    await send(repository, 1, 1, "a");
    const before = repository.files;
    repository.faults = Array.from({ length: 100 }, () => "unavailable" as const);
    await expect(aggregator.poll()).rejects.toMatchObject({ code: "transport.unavailable" });
    expect(repository.files).toBe(before);
    repository.faults = [];
    await send(repository, 1, 3, "b");
    await aggregator.poll();
    expect(repository.record.outerStep).toBe(1);
    expect(repository.weights).toEqual({ w: [8] });
  });

  test("L-36: shows its version to nobody before it is published", async () => {
    const repository = new FakeRepository();
    const { aggregator, events } = await start({ repository, weights, settings: plain });
    await send(repository, 1);
    const seen: unknown[] = [];
    repository.faults = [
      () =>
        seen.push(
          aggregator.outerStep,
          repository.record.outerStep,
          events.map(([name]) => name),
        ),
    ];
    await aggregator.poll();
    expect(seen).toEqual([0, 0, ["version_published"]]);
    expect(aggregator.outerStep).toBe(1);
    expect(events.map(([name]) => name)).toEqual(["version_published", "version_published", "outer_step"]);
  });

  test("L-17: costs downloads only, where the disk is lost after a publication", async () => {
    const repository = new FakeRepository();
    const first = await start({ repository, weights, settings: plain });
    await send(repository, 1);
    await first.aggregator.poll();
    rmSync(first.folder, { recursive: true, force: true });
    await send(repository, 2);
    await first.aggregator.poll();
    expect(repository.record.outerStep).toBe(2);
    expect(repository.weights).toEqual({ w: [8] });
  });
});

describe("a version", () => {
  test("L-24: is read whole, even if the next one is published in between", async () => {
    const { repo, node } = newBench();
    publish(repo, { outerStep: 1, weights: [5, 6], applied: [] });
    let isPublished = false;
    repo.fault = (call) => {
      if (call === "open" && !isPublished) {
        isPublished = true;
        publish(repo, { outerStep: 2, weights: [7, 8], applied: [] });
        // The path of the first one, too, has other content now.
        repo.put({ "global/step_1.safetensors": repo.files.get("global/step_2.safetensors")! });
      }
      return undefined;
    };
    const model = new TestModel([1, 2]);
    const worker = node();
    await worker.start(model);
    expect(isPublished).toBe(true);
    expect(worker.state.installed).toBe(1);
    expect([...model.weights]).toEqual([5, 6]);
    await worker.stop(model, 0);
  });

  test("L-32: with an absurd number is ignored by nodes that are in the run, and the real ones go on", async () => {
    const { repo, clock, node, events } = newBench();
    publish(repo, { outerStep: 1, weights: [5], applied: [] });
    const model = new TestModel([1]);
    const worker = node();
    await worker.start(model);
    publish(repo, { outerStep: Number.MAX_SAFE_INTEGER, weights: [666], applied: [] });
    await clock.advance(3000);
    publish(repo, { outerStep: 2, weights: [6], applied: [] });
    await clock.advance(3000);
    await worker.afterStep(model, 1, 1);
    expect([...model.weights]).toEqual([6]);
    expect(events.filter(({ event }) => event === "version_ignored")).toMatchObject([
      { payload: { outer_step: Number.MAX_SAFE_INTEGER, reason: "too_far_ahead" } },
    ]);
    await worker.stop(model, 0);
  });
});

describe("a master that starts", () => {
  /** Reads of the record fail so often. */
  function failReads(repository: FakeRepository, problem: "unavailable" | "denied", times: number) {
    const read = repository.read.bind(repository);
    let left = times;
    repository.read = async (revision, path) => {
      if (left-- > 0) throw new TransportError(problem, "nobody can read this now");
      return read(revision, path);
    };
  }

  test("L-26: never takes a record that it cannot read for none", async () => {
    const repository = new FakeRepository();
    const first = await start({ repository, weights, settings: plain });
    await send(repository, 1);
    await first.aggregator.poll();
    const other = [f32("w", -99)];
    const before = repository.files;
    failReads(repository, "denied", 1);
    await expect(start({ repository, weights: other })).rejects.toThrow(TransportError);
    expect(repository.files).toBe(before);
    failReads(repository, "unavailable", 3);
    const { aggregator } = await start({ repository, weights: other, settings: plain });
    expect(aggregator.outerStep).toBe(1);
    expect(repository.weights).toEqual({ w: [9] });
    repository.write({ "global/step_count.json": '{"outer_step": 1' });
    const damaged = start({ repository, weights: other, takeOver: true });
    await expect(damaged).rejects.toMatchObject({ code: "aggregator.damaged_repository" });
  });

  test("L-30: tries to publish the first version until it is there, and only once if the answer was lost", async () => {
    const repository = new FakeRepository();
    repository.faults = [
      "unavailable",
      "conflict",
      "unavailable",
      ...Array(12).fill("unavailable"),
      "lost answer",
    ];
    const { aggregator } = await start({ repository, weights });
    expect(repository.faults).toEqual([]);
    expect(aggregator.outerStep).toBe(0);
    expect(repository.weights).toEqual({ w: [10] });
    expect(repository.commits).toHaveLength(1);
  });

  test("L-28: goes on from the repository's weights at version 0, whatever it would have begun with", async () => {
    const repository = new FakeRepository();
    await start({ repository, weights });
    const { aggregator } = await start({ repository, weights: [f32("w", -99)], settings: plain });
    await send(repository, 1);
    await aggregator.poll();
    expect(repository.weights).toEqual({ w: [9] });
  });

  test("L-29: with files of an older version goes on from the newest, and publishes no number below it", async () => {
    const repository = new FakeRepository();
    const settings = { outerLr: 0.5, outerMomentum: 0.5 };
    const first = await start({ repository, weights, settings });
    await send(repository, 1);
    await first.aggregator.poll();
    const old = copyOf(first.folder);
    for (const number of [2, 3]) {
      await send(repository, number);
      await first.aggregator.poll();
    }
    const expected = repository.weights;
    const surroundings = { ...(await diskSurroundings(old, new FakeClock())), dateMs: () => 0 };
    const second = await start({ repository, settings, surroundings });
    await second.aggregator.poll();
    expect([repository.record.outerStep, repository.weights]).toEqual([3, expected]);
    await send(repository, 4);
    await second.aggregator.poll();
    await first.aggregator.poll().catch(() => undefined);
    // Momentum of four equal deltas from version 3 on, not from version 1.
    expect(repository.record.outerStep).toBe(4);
    const steps = [1, 2, 3, 4].map((round) => 0.5 * (1 + 0.5 * (2 - 0.5 ** (round - 1))));
    expect(repository.weights.w![0]).toBeCloseTo(10 - steps.reduce((a, b) => a + b), 5);
  });

  test("L-34: of an emptied repository publishes at once, or stops where it had published before", async () => {
    const repository = new FakeRepository();
    const first = await start({ repository, weights, settings: plain });
    await send(repository, 1);
    await first.aggregator.poll();
    repository.write(Object.fromEntries([...repository.files.keys()].map((path) => [path, null])));
    await expect(first.aggregator.poll()).rejects.toThrow("its version record is gone");
    expect(repository.files.size).toBe(0);
    await start({ repository, weights: [f32("w", 4)] });
    expect(repository.record.outerStep).toBe(0);
    expect(repository.weights).toEqual({ w: [4] });
  });
});
