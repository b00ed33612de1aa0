// An aggregator whose repository answered once waits for it: while it starts, while it runs and while it drains, with
// longer and longer waits, until it is told to stop.

import { describe, expect, test } from "vitest";
import { TransportError, type TransportProblem } from "../../../src/distributed/transports/errors.js";
import { f32 } from "../states.js";
import { deltaFile, FakeRepository, start } from "./repository.js";

const weights = [f32("w", 1, -2, 0.5)];

/** Looks at the head fail so often, after `good` that do not. */
function failHead(repository: FakeRepository, problem: TransportProblem, times: number, good = 0): void {
  const head = repository.head.bind(repository);
  let calls = 0;
  repository.head = async () => {
    calls++;
    if (calls > good && calls <= good + times) throw new TransportError(problem, "nobody answers");
    return head();
  };
}

/** Reads of the version record fail so often. */
function failReads(repository: FakeRepository, problem: TransportProblem, times: number): void {
  const read = repository.read.bind(repository);
  let left = times;
  repository.read = async (revision, path) => {
    if (left-- > 0) throw new TransportError(problem, "nobody answers");
    return read(revision, path);
  };
}

async function send(repository: FakeRepository): Promise<void> {
  const bytes = await deltaFile({ nodeId: "a", localStep: 1, baseOuterStep: 0 }, f32("w", 1, 2, -0.25));
  repository.write({ "nodes/a/delta_1.safetensors": bytes });
}

const waits = (events: readonly [string, Readonly<Record<string, unknown>>][]) =>
  events.filter(([name]) => name === "aggregator_waiting").map(([, payload]) => payload.wait_ms);

describe("start", () => {
  test("without a first answer it fails at once", async () => {
    const repository = new FakeRepository();
    failHead(repository, "unavailable", 1);
    await expect(start({ repository, weights })).rejects.toThrow("nobody answers");
    expect(repository.commits.length).toBe(0);
  });

  test("with files of the run from before it waits for the first answer, too", async () => {
    const repository = new FakeRepository();
    const { folder } = await start({ repository, weights });
    failHead(repository, "unavailable", 2);
    const { aggregator, events } = await start({ repository, folder });
    expect(aggregator.run.owner).toMatchObject({ masterId: "master-1", term: 2 });
    expect(waits(events)).toEqual([1500, 3000]);
  });

  test("after the first answer it waits, longer each time", async () => {
    const repository = new FakeRepository();
    failReads(repository, "unavailable", 3);
    const { aggregator, events } = await start({ repository, weights });
    expect(aggregator.outerStep).toBe(0);
    expect(waits(events)).toEqual([1500, 3000, 6000]);
  });

  test("a claim that conflicts for ever so long goes on, as one master", async () => {
    const repository = new FakeRepository();
    await start({ repository, weights });
    repository.faults = Array.from({ length: 30 }, () => "conflict" as const);
    const { aggregator } = await start({ repository });
    expect(aggregator.run.owner).toMatchObject({ masterId: "master-1", term: 2 });
    expect(repository.faults.length).toBe(0);
  });

  test("what is permanent is not tried again", async () => {
    const repository = new FakeRepository();
    failReads(repository, "denied", 1);
    await expect(start({ repository, weights })).rejects.toMatchObject({ code: "transport.denied" });
  });

  test("a take-over does not extend to a master that came in between two tries", async () => {
    const repository = new FakeRepository();
    await start({ repository, weights });
    const read = repository.read.bind(repository);
    let reads = 0;
    repository.read = async (revision, path) => {
      if (++reads !== 2) return read(revision, path);
      repository.read = read;
      await start({ repository, masterId: "faster", takeOver: true });
      throw new TransportError("unavailable", "nobody answers");
    };
    const slow = start({ repository, masterId: "slow", takeOver: true });
    await expect(slow).rejects.toMatchObject({ code: "aggregator.fenced" });
  });
});

describe("runUntil", () => {
  test("commits that others always overtake are tried again", async () => {
    const repository = new FakeRepository();
    const { aggregator } = await start({ repository, weights });
    await send(repository);
    repository.faults = Array.from({ length: 30 }, () => "conflict" as const);
    await aggregator.runUntil({ rounds: 1 });
    expect(repository.record.outerStep).toBe(1);
  });
});

describe("drain", () => {
  const settings = { quorum: 3, graceMs: 1e9 };

  test("waits for the repository and then takes what is there", async () => {
    const repository = new FakeRepository();
    const { aggregator, events } = await start({ repository, weights, settings });
    await send(repository);
    failHead(repository, "unavailable", 4);
    await aggregator.drain();
    expect(repository.record.outerStep).toBe(1);
    expect(waits(events)).toEqual([1500, 3000, 6000, 12_000]);
  });

  test("a signal ends the waiting with what it waited for", async () => {
    const repository = new FakeRepository();
    const { aggregator, clock } = await start({ repository, weights, settings });
    await send(repository);
    failHead(repository, "unavailable", Number.POSITIVE_INFINITY);
    const stop = new AbortController();
    const { sleep } = clock;
    Object.assign(clock, {
      sleep: async (ms: number) => {
        await sleep(ms);
        if (clock.ms > 1_000_000) stop.abort();
      },
    });
    await expect(aggregator.drain(stop.signal)).rejects.toMatchObject({ code: "transport.unavailable" });
    expect(repository.record.outerStep).toBe(0);
    expect(clock.ms).toBeLessThan(1_100_000);
  });

  test("being fenced off ends it", async () => {
    const repository = new FakeRepository();
    const { aggregator } = await start({ repository, weights, settings });
    await start({ repository, masterId: "other", takeOver: true });
    await expect(aggregator.drain()).rejects.toMatchObject({ code: "aggregator.fenced" });
  });

  test("ends after grace_seconds without progress, and says what it waited for", async () => {
    const repository = new FakeRepository();
    const { aggregator, clock } = await start({
      repository,
      weights,
      settings: { ...settings, graceMs: 30_000 },
    });
    await send(repository);
    failHead(repository, "unavailable", Number.POSITIVE_INFINITY);
    const startMs = clock.ms;
    await expect(aggregator.drain()).rejects.toMatchObject({
      code: "transport.unavailable",
      message: expect.stringMatching(
        /^nobody answers; the last round was given up after 3\d s without progress/,
      ),
    });
    expect(clock.ms - startMs).toBeLessThan(60_000);
  });

  test("a delta that cannot be read is waited for as long, by name", async () => {
    const repository = new FakeRepository();
    const { aggregator, events } = await start({
      repository,
      weights,
      settings: { ...settings, graceMs: 30_000 },
    });
    await send(repository);
    const open = repository.open.bind(repository);
    repository.open = async (revision, path) => {
      if (path.startsWith("nodes/")) throw new TransportError("unavailable", "half a file");
      return open(revision, path);
    };
    await expect(aggregator.drain()).rejects.toMatchObject({
      code: "aggregator.undrained",
      message: expect.stringMatching(
        /1 delta could not be read within 3\d s \(nodes\/a\/delta_1\.safetensors\).*the next aggregator counts/,
      ),
    });
    const waited = events.filter(([name]) => name === "aggregator_waiting").map(([, { error }]) => error);
    expect(waited[0]).toMatch(
      /1 delta cannot be read \(nodes\/a\/delta_1\.safetensors\); waiting at most 30 s/,
    );
    repository.open = open;
    await aggregator.drain();
    expect(repository.record.outerStep).toBe(1);
  });
});
