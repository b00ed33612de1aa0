// The aggregator over a repository in memory: how runs begin, what a round publishes, and what no fault may lead to.

import { describe, expect, test } from "vitest";
import { parseLedger } from "../../../src/distributed/protocol/ledger-text.js";
import { parseSafetensors } from "../../../src/formats/safetensors/index.js";
import { f32, fileValues, hex } from "../states.js";
import { deltaFile, FakeRepository, start } from "./repository.js";

const code = (code: string) => expect.objectContaining({ code, exitCode: 6 });
const golden = ["c1f5a8beb81e95c0b81e553f", "2b870ec0954307c19543a73f", "2f4c94c02f4c54c12f4cf43f"];
const weights = [f32("w", 1, -2, 0.5)];
const stateHex = (repository: FakeRepository) =>
  hex(parseSafetensors(repository.files.get(repository.record.modelFile)!).read("w").bytes);
const ledgerOf = (repository: FakeRepository) =>
  parseLedger(repository.files.get("global/ledger.json")!).entries;

/** The delta of wire-format's golden sequence, as the `number`-th of node a. */
async function sendGolden(repository: FakeRepository, number: number) {
  const bytes = await deltaFile(
    { nodeId: "a", localStep: number, baseOuterStep: repository.record.outerStep },
    f32("w", 1, 2, -0.25),
  );
  repository.write({ [`nodes/a/delta_${number}.safetensors`]: bytes });
}

describe("how a run begins", () => {
  test("version 0 in one commit, with hash, ledger and owner", async () => {
    const repository = new FakeRepository();
    await start({ repository, weights });
    expect(repository.commits.length).toBe(1);
    expect([...repository.files.keys()].sort()).toEqual([
      "global/history.json",
      "global/latest.safetensors",
      "global/ledger.json",
      "global/step_000000.safetensors",
      "global/step_count.json",
    ]);
    expect(repository.weights).toEqual({ w: [1, -2, 0.5] });
    expect(repository.record).toMatchObject({
      outerStep: 0,
      isBootstrap: true,
      modelFile: "global/step_000000.safetensors",
      extra: { master_id: "master-1", master_term: 1 },
    });
  });

  test("no run and nothing to start one from", async () => {
    const repository = new FakeRepository();
    await expect(start({ repository })).rejects.toEqual(code("aggregator.no_run"));
    expect(repository.commits).toEqual([]);
  });

  test("L-63: a public repository, unless that is meant", async () => {
    const repository = new FakeRepository();
    repository.isPublic = true;
    await expect(start({ repository, weights })).rejects.toThrow("can be read by everybody");
    expect(repository.commits).toEqual([]);
  });

  test("L-26: weights without a record belong to a master that is starting", async () => {
    const repository = new FakeRepository();
    repository.write({ "global/latest.safetensors": Uint8Array.of(1) });
    await expect(start({ repository, weights })).rejects.toEqual(code("aggregator.half_started"));
    await start({ repository, weights, takeOver: true });
    expect(repository.record.outerStep).toBe(0);
  });

  test("L-27: two at once: the slower one finds the run of the other and is fenced off", async () => {
    const repository = new FakeRepository();
    const fast = new FakeRepository();
    await start({ repository: fast, weights, masterId: "fast" });
    repository.faults = [() => repository.write(Object.fromEntries(fast.files))];
    await expect(start({ repository, weights, masterId: "slow" })).rejects.toEqual(code("aggregator.fenced"));
    expect(repository.record.extra).toMatchObject({ master_id: "fast" });
  });

  test("L-72: a damaged file of the run stops the start", async () => {
    const repository = new FakeRepository();
    await start({ repository, weights });
    repository.write({ "global/step_000000.safetensors": repository.files.get("global/ledger.json")! });
    await expect(start({ repository })).rejects.toEqual(code("aggregator.damaged_repository"));
  });

  test("L-19: a run of another model is refused field by field", async () => {
    const repository = new FakeRepository();
    await start({ repository, weights, fingerprint: { n_head: 4, rope_base: 10000 } });
    const other = start({ repository, fingerprint: { n_head: 8, rope_base: 10000 } });
    await expect(other).rejects.toThrow("n_head is 4, this run has 8");
  });
});

describe("rounds", () => {
  test("L-15 L-24 L-33: the golden sequence, bit for bit, one commit each, over restarts from the repository alone", async () => {
    const repository = new FakeRepository();
    let { aggregator } = await start({ repository, weights });
    for (let round = 1; round <= 3; round++) {
      await sendGolden(repository, round);
      const before = repository.commits.length;
      await aggregator.runUntil({ rounds: 1 });
      expect(repository.commits.length).toBe(before + 1);
      expect(stateHex(repository)).toBe(golden[round - 1]);
      ({ aggregator } = await start({ repository }));
    }
    expect(repository.record).toMatchObject({
      outerStep: 3,
      optimizer: "nesterov_sgd",
      extra: { parent_outer_step: 2, outer_lr: 0.7, outer_momentum: 0.9, master_term: 4 },
    });
    expect(repository.files.get("global/latest.safetensors")).toEqual(
      repository.files.get("global/step_000003.safetensors"),
    );
    expect(ledgerOf(repository).map(({ path, fate, outerStep }) => [path, fate, outerStep])).toEqual([
      ["nodes/a/delta_1.safetensors", "applied", 1],
      ["nodes/a/delta_2.safetensors", "applied", 2],
      ["nodes/a/delta_3.safetensors", "applied", 3],
    ]);
  });

  test("L-75: an idle poll is one request", async () => {
    const repository = new FakeRepository();
    const { aggregator } = await start({ repository, weights });
    await aggregator.poll();
    repository.calls.length = 0;
    await aggregator.poll();
    expect(repository.calls).toEqual(["head"]);
  });

  test("L-04 L-19 L-20: NaN, another shape, another model and a foreign id are rejected with their reasons, the rest counts", async () => {
    const repository = new FakeRepository();
    const fingerprint = { n_head: 4 };
    const { aggregator } = await start({ repository, weights, fingerprint });
    const good = f32("w", 1, 2, -0.25);
    const extra = (n_head: number) => ({ extra: { fingerprint: JSON.stringify({ n_head }) } });
    repository.write({
      "nodes/a/delta_1.safetensors": await deltaFile({ nodeId: "a", ...extra(4) }, good),
      "nodes/b/delta_1.safetensors": await deltaFile({ nodeId: "b" }, f32("w", 1, Number.NaN, 1)),
      "nodes/c/delta_1.safetensors": await deltaFile({ nodeId: "c" }, f32("w", 1, 2)),
      "nodes/d/delta_1.safetensors": await deltaFile({ nodeId: "d", ...extra(8) }, f32("w", 1, 1, 1)),
      "nodes/e/delta_1.safetensors": await deltaFile({ nodeId: "x" }, f32("w", 1, 1, 2)),
      "nodes/f/delta_1.safetensors": new Uint8Array(2 ** 21),
      "nodes/g/delta_1.safetensors": new Uint8Array(100),
    });
    await aggregator.poll();
    expect(stateHex(repository)).toBe(golden[0]);
    expect(
      Object.fromEntries(
        ledgerOf(repository).map(({ nodeId, fate, reason }) => [nodeId, `${fate} ${reason}`]),
      ),
    ).toEqual({
      a: "applied ",
      b: 'rejected non_finite: tensor "w": has values that are not finite',
      c: expect.stringMatching(/^rejected shape_mismatch: .*\[3\].*\[2\]/),
      d: "rejected fingerprint: made by another model: n_head is 8, this run has 4",
      e: 'rejected invalid_header: node_id is "x", the path says "e"',
      f: expect.stringMatching(/^rejected too_large: 2097152 bytes/),
      g: expect.stringMatching(/^rejected unreadable_delta: /),
    });
    expect(repository.calls).not.toContain("open nodes/f/delta_1.safetensors");
  });

  test("L-04: a delta whose sum would overflow goes, the others stay", async () => {
    const repository = new FakeRepository();
    const { aggregator } = await start({ repository, weights, settings: { outerLr: 1e10 } });
    repository.write({
      "nodes/a/delta_1.safetensors": await deltaFile({ nodeId: "a" }, f32("w", 1, 2, -0.25)),
      "nodes/b/delta_1.safetensors": await deltaFile({ nodeId: "b" }, f32("w", 1e29, 1e29, 1e29)),
    });
    await aggregator.poll();
    await aggregator.poll();
    const values = repository.weights.w!;
    expect(values.every(Number.isFinite)).toBe(true);
    const { history } = aggregator.run;
    expect(history.versions.flatMap(({ deltas }) => deltas.map(({ nodeId }) => nodeId))).toEqual(["a"]);
    await sendGolden(repository, 2);
    await aggregator.poll();
    const fates = ledgerOf(repository).map(({ nodeId, fate, reason }) => [nodeId, fate, reason.slice(0, 9)]);
    expect(fates).toContainEqual(["b", "rejected", "overflow:"]);
  });

  test("L-04: a delta that is just finite does not get into the momentum, where it would spoil every later round", async () => {
    const repository = new FakeRepository();
    const settings = { merge: "tokens", clipFactor: null, outerLr: 1, momentumWarmupRounds: 1 } as const;
    const { aggregator } = await start({ repository, weights, settings });
    repository.write({
      "nodes/b/delta_1.safetensors": await deltaFile({ nodeId: "b" }, f32("w", 3e38, 0, 0)),
    });
    await aggregator.poll();
    expect(repository.record.outerStep).toBe(0);
    await sendGolden(repository, 1);
    await aggregator.poll();
    await sendGolden(repository, 2);
    await aggregator.poll();
    const fates = ledgerOf(repository).map(({ path, fate, outerStep }) => [path, fate, outerStep]);
    expect(fates.sort()).toEqual([
      ["nodes/a/delta_1.safetensors", "applied", 1],
      ["nodes/a/delta_2.safetensors", "applied", 2],
      ["nodes/b/delta_1.safetensors", "rejected", 1],
    ]);
  });

  test("L-06: a thousandfold delta is shortened to the running median", async () => {
    const repository = new FakeRepository();
    const { aggregator } = await start({
      repository,
      weights,
      settings: { merge: "tokens", clipFactor: 3, outerLr: 1, outerMomentum: 0 },
    });
    for (let number = 1; number <= 6; number++) {
      const base = repository.record.outerStep;
      const step = await deltaFile(
        { nodeId: "a", localStep: number, baseOuterStep: base },
        f32("w", 1, 0, number / 1000),
      );
      repository.write({ [`nodes/a/delta_${number}.safetensors`]: step });
      await aggregator.poll();
    }
    const before = repository.weights.w![0]!;
    const huge = await deltaFile(
      { nodeId: "b", baseOuterStep: repository.record.outerStep },
      f32("w", 1000, 0, 0),
    );
    repository.write({ "nodes/b/delta_1.safetensors": huge });
    await aggregator.poll();
    expect(repository.record.outerStep).toBe(7);
    expect(before - repository.weights.w![0]!).toBeCloseTo(3, 2);
  });

  test("L-35: old weights, momentum and deltas leave with the commit that makes them old", async () => {
    const repository = new FakeRepository();
    const { aggregator } = await start({ repository, weights, settings: { keepVersions: 2 } });
    for (let round = 1; round <= 5; round++) {
      await sendGolden(repository, round);
      await aggregator.poll();
    }
    const numbers = (pattern: RegExp) =>
      [...repository.files.keys()].flatMap((path) => pattern.exec(path)?.[1] ?? []).sort();
    expect(numbers(/global\/step_0*([0-9]+)\.s/)).toEqual(["3", "4", "5"]);
    expect(numbers(/momentum_0*([0-9]+)\.s/)).toEqual(["3", "4", "5"]);
    expect(numbers(/delta_([0-9]+)/)).toEqual(["4", "5"]);
  });

  test("L-35: a path that a node has filled anew is not deleted", async () => {
    const repository = new FakeRepository();
    const { aggregator } = await start({ repository, weights, settings: { keepVersions: 1 } });
    await sendGolden(repository, 1);
    await aggregator.poll();
    await sendGolden(repository, 2);
    const again = await deltaFile({ nodeId: "a", baseOuterStep: 1 }, f32("w", 5, 5, 5));
    // Between the plan and its commit.
    repository.faults = [() => repository.write({ "nodes/a/delta_1.safetensors": again })];
    await aggregator.poll();
    expect(repository.record.outerStep).toBe(2);
    expect(repository.files.get("nodes/a/delta_1.safetensors")).toEqual(again);
  });

  test("L-22: the drain takes what is there without a quorum", async () => {
    const repository = new FakeRepository();
    const { aggregator } = await start({ repository, weights, settings: { quorum: 3, graceMs: 1e9 } });
    await sendGolden(repository, 1);
    await aggregator.poll();
    expect(repository.record.outerStep).toBe(0);
    await aggregator.drain();
    expect(stateHex(repository)).toBe(golden[0]);
  });
});

describe("faults", () => {
  test("conflicts with workers' commits are retried on the new head", async () => {
    const repository = new FakeRepository();
    const { aggregator } = await start({ repository, weights });
    await sendGolden(repository, 1);
    repository.faults = ["conflict", "conflict", "unavailable", "conflict"];
    await aggregator.poll();
    expect(repository.record.outerStep).toBe(1);
    expect(stateHex(repository)).toBe(golden[0]);
  });

  test("L-16: a commit whose answer was lost is found, not repeated", async () => {
    const repository = new FakeRepository();
    const { aggregator } = await start({ repository, weights });
    await sendGolden(repository, 1);
    repository.faults = ["lost answer"];
    const before = repository.commits.length;
    await aggregator.poll();
    await aggregator.poll();
    expect(repository.commits.length).toBe(before + 1);
    expect(aggregator.outerStep).toBe(1);
    expect(stateHex(repository)).toBe(golden[0]);
  });

  test("L-16: a master that dies between the commit and its answer counts nothing twice", async () => {
    const repository = new FakeRepository();
    const { aggregator } = await start({ repository, weights });
    await sendGolden(repository, 1);
    const dying = new AbortController();
    const commit = repository.commit.bind(repository);
    repository.commit = async (request) => {
      await commit(request);
      dying.abort(new Error("killed"));
      throw dying.signal.reason;
    };
    await expect(aggregator.poll(dying.signal)).rejects.toThrow("killed");
    repository.commit = commit;
    const second = await start({ repository });
    await second.aggregator.poll();
    await second.aggregator.poll();
    expect(repository.record.outerStep).toBe(1);
    expect(stateHex(repository)).toBe(golden[0]);
  });

  test("a version that got through after all is read again instead of being published twice", async () => {
    const repository = new FakeRepository();
    const { aggregator, events } = await start({ repository, weights });
    await sendGolden(repository, 1);
    // Made, and then nobody answers for so long that the attempt is given up.
    repository.faults = ["lost answer"];
    const head = repository.head.bind(repository);
    let outages = 11;
    repository.head = async () => {
      if (repository.record.outerStep === 1 && outages-- > 0) throw await unavailable();
      return head();
    };
    await aggregator
      .runUntil({ rounds: 1, signal: stopWhen(() => repository.calls.length > 60) })
      .catch(() => {});
    await aggregator.poll();
    expect(aggregator.outerStep).toBe(1);
    expect(stateHex(repository)).toBe(golden[0]);
    expect(events.map(([name]) => name)).toContain("master_restored");
  });
});

describe("one master at a time", () => {
  test("L-31: a second one is fenced off and changes nothing", async () => {
    const repository = new FakeRepository();
    await start({ repository, weights });
    const before = repository.files;
    await expect(start({ repository, masterId: "master-2" })).rejects.toEqual(code("aggregator.fenced"));
    expect(repository.files).toBe(before);
  });

  test("L-31: after a take-over the first one stops without publishing, and the run goes on", async () => {
    const repository = new FakeRepository();
    const first = await start({ repository, weights });
    await sendGolden(repository, 1);
    await first.aggregator.poll();
    const second = await start({ repository, masterId: "master-2", takeOver: true });
    expect(repository.record.extra).toMatchObject({ master_id: "master-2", master_term: 2 });
    await sendGolden(repository, 2);
    await expect(first.aggregator.poll()).rejects.toEqual(code("aggregator.fenced"));
    expect(repository.record.outerStep).toBe(1);
    await second.aggregator.poll();
    expect(stateHex(repository)).toBe(golden[1]);
  });

  test("L-31: taken over between plan and commit", async () => {
    const repository = new FakeRepository();
    const first = await start({ repository, weights });
    await sendGolden(repository, 1);
    const record = repository.text("global/step_count.json").replace('"master-1"', '"master-2"');
    repository.faults = [() => repository.write({ "global/step_count.json": record })];
    await expect(first.aggregator.poll()).rejects.toEqual(code("aggregator.fenced"));
    expect(repository.record.outerStep).toBe(0);
  });

  test("a Python master's run: its deltas are not counted again, newer ones are", async () => {
    const repository = new FakeRepository();
    const source = new FakeRepository();
    await start({ repository: source, weights });
    const record = { algorithm: "dumb_diloco", model_file: "global/latest.safetensors", outer_step: 4 };
    repository.write({
      "global/latest.safetensors": source.files.get("global/latest.safetensors")!,
      "global/step_count.json": JSON.stringify(record),
      "nodes/a/delta_1.safetensors": await deltaFile({ nodeId: "a", baseOuterStep: 3 }, f32("w", 9, 9, 9)),
      "nodes/b/delta_1.safetensors": await deltaFile(
        { nodeId: "b", baseOuterStep: 4 },
        f32("w", 1, 2, -0.25),
      ),
    });
    await expect(start({ repository })).rejects.toEqual(code("aggregator.fenced"));
    const { aggregator } = await start({ repository, takeOver: true });
    expect(repository.record).toMatchObject({ outerStep: 4, modelFile: "global/step_000004.safetensors" });
    await aggregator.poll();
    expect(repository.record.outerStep).toBe(5);
    expect(stateHex(repository)).toBe(golden[0]);
    expect(
      ledgerOf(repository).map(({ nodeId, fate, outerStep, weight }) => [nodeId, fate, outerStep, weight]),
    ).toEqual([
      ["a", "applied", 4, 0],
      ["b", "applied", 5, 1],
    ]);
    expect(fileValues(repository.files.get("global/momentum_000005.safetensors")!)).toEqual({
      w: [1, 2, -0.25],
    });
  });
});

async function unavailable() {
  const { TransportError } = await import("../../../src/distributed/transports/errors.js");
  return new TransportError("unavailable", "nobody answers");
}

function stopWhen(isTime: () => boolean): AbortSignal {
  const controller = new AbortController();
  return Object.create(controller.signal, {
    aborted: { get: isTime },
    throwIfAborted: { value: () => undefined },
  }) as AbortSignal;
}

describe("refused deltas that no round follows", () => {
  const nan = () => deltaFile({ nodeId: "a" }, f32("w", Number.NaN, 0, 0));

  test("are told of after the grace time, in one small commit, and once", async () => {
    const repository = new FakeRepository();
    const { aggregator, clock, events } = await start({ repository, weights, settings: { graceMs: 20_000 } });
    const before = repository.record;
    repository.write({ "nodes/a/delta_1.safetensors": await nan() });
    await aggregator.poll();
    clock.ms += 19_999;
    await aggregator.poll();
    expect(repository.commits).toHaveLength(1);
    clock.ms += 1;
    repository.faults = ["conflict", "lost answer"];
    await aggregator.poll();
    expect(ledgerOf(repository)).toMatchObject([
      {
        nodeId: "a",
        fate: "rejected",
        outerStep: 0,
        weight: 0,
        reason: expect.stringMatching(/^non_finite/),
      },
    ]);
    const { ledger_sha256: _, ...extra } = repository.record.extra;
    const { ledger_sha256: __, ...extraBefore } = before.extra;
    expect({ ...repository.record, extra }).toEqual({ ...before, extra: extraBefore });
    expect(repository.commits.at(-1)!.operations.map(({ path }) => path)).toEqual([
      "global/ledger.json",
      "global/step_count.json",
    ]);
    expect(events).toContainEqual(["fates_published", { outer_step: 0, deltas: 1 }]);
    const commits = repository.commits.length;
    clock.ms += 60_000;
    await aggregator.poll();
    expect(repository.commits).toHaveLength(commits);
  });

  test("published while another one takes over, they are what that one goes on from", async () => {
    const repository = new FakeRepository();
    const { aggregator, clock } = await start({ repository, weights, settings: { graceMs: 20_000 } });
    repository.write({ "nodes/a/delta_1.safetensors": await nan() });
    await aggregator.poll();
    clock.ms += 20_000;
    const commit = repository.commit.bind(repository);
    repository.commit = async (request) => {
      repository.commit = commit;
      await aggregator.poll();
      return commit(request);
    };
    const second = await start({ repository, masterId: "second", takeOver: true });
    expect(ledgerOf(repository)).toMatchObject([{ nodeId: "a", fate: "rejected" }]);
    expect(second.aggregator.run.ledger.entries).toHaveLength(1);
    // Opening the run again compares every file with its hash in the record.
    const again = await start({ repository, masterId: "second" });
    expect(again.aggregator.run.owner).toMatchObject({ masterId: "second", term: 3 });
  });

  test("are known to the next master, and the next round goes on from there", async () => {
    const repository = new FakeRepository();
    const first = await start({ repository, weights, settings: { graceMs: 20_000 } });
    repository.write({ "nodes/a/delta_1.safetensors": await nan() });
    await first.aggregator.poll();
    first.clock.ms += 20_000;
    await first.aggregator.poll();
    const { aggregator } = await start({ repository });
    await sendGolden(repository, 2);
    await aggregator.poll();
    expect(stateHex(repository)).toBe(golden[0]);
    expect(ledgerOf(repository).map(({ fate, outerStep }) => [fate, outerStep])).toEqual([
      ["rejected", 0],
      ["applied", 1],
    ]);
  });

  test("are told of by a drain at once", async () => {
    const repository = new FakeRepository();
    const { aggregator } = await start({ repository, weights });
    repository.write({ "nodes/a/delta_1.safetensors": await nan() });
    await aggregator.drain();
    expect(repository.record.outerStep).toBe(0);
    expect(ledgerOf(repository)).toMatchObject([{ fate: "rejected" }]);
  });

  test("wait for the repository, and end nothing", async () => {
    const repository = new FakeRepository();
    const { aggregator, clock } = await start({ repository, weights, settings: { graceMs: 20_000 } });
    repository.write({ "nodes/a/delta_1.safetensors": await nan() });
    await aggregator.poll();
    repository.faults = Array.from({ length: 12 }, () => "unavailable" as const);
    clock.ms += 20_000;
    await aggregator.poll();
    expect(ledgerOf(repository)).toEqual([]);
    clock.ms += 20_000;
    await aggregator.poll();
    expect(ledgerOf(repository)).toMatchObject([{ fate: "rejected" }]);
  });
});
