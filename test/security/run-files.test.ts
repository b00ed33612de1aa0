// What somebody who may write to a run's repository can put there: records, weights and deltas made to mislead, to fill
// a disk or to end a process. Nodes and masters say what is wrong, and go on with what they have.

import { describe, expect, it } from "vitest";
import { deltaFile, FakeRepository, start } from "../distributed/aggregator/repository.js";
import { newBench, publish, stateFile, TestModel } from "../distributed/node/bench.js";
import { f32 } from "../distributed/states.js";

const RECORD = "global/step_count.json";

/** A node on version 1, and what becomes of it when somebody changes the repository. */
async function followers(change: (bench: ReturnType<typeof newBench>) => void) {
  const bench = newBench();
  publish(bench.repo, { outerStep: 1, weights: [1, 2], applied: [] });
  const model = new TestModel([0, 0]);
  const node = bench.node();
  await node.start(model);
  expect([...model.weights]).toEqual([1, 2]);
  const calls = bench.repo.calls.length;
  change(bench);
  for (let step = 1; step <= 3; step++) {
    await bench.clock.advance(1500);
    await node.afterStep(model, step, 1);
  }
  const opened = bench.repo.calls.slice(calls).filter((call) => call === "open").length;
  const told = bench.events.filter(({ event }) => /refused|ignored|fetch_failed|node_/.test(event));
  return {
    bench,
    node,
    model,
    opened,
    told: told.map(({ event, payload }) => `${event} ${JSON.stringify(payload)}`),
  };
}

/** The record of version 2 with other fields than its master would write. */
function crafted(
  fields: Readonly<Record<string, unknown>>,
  files: Readonly<Record<string, Uint8Array | string>> = {},
) {
  return ({ repo }: ReturnType<typeof newBench>) => {
    publish(repo, { outerStep: 2, weights: [9, 9], applied: [] });
    const record = JSON.parse(new TextDecoder().decode(repo.files.get(RECORD)));
    repo.put({ [RECORD]: JSON.stringify({ ...record, ...fields }), ...files });
  };
}

describe("security: a version record that misleads is not followed, and nothing is fetched for it", () => {
  const deep = JSON.parse("[".repeat(2000) + "]".repeat(2000)) as unknown;
  it.each([
    ["outer_step", { outer_step: 9_007_199_254_740_991 }, /version_ignored .*too_far_ahead/],
    [
      "outer_step",
      { outer_step: "99999999999999999999999" },
      /version_refused .*outer_step must be an integer/,
    ],
    ["outer_step", { outer_step: 1e300 }, /version_refused .*outer_step must be an integer/],
    ["outer_step", { outer_step: -1 }, /version_refused .*outer_step must be an integer/],
    ["model_file", { model_file: "../../etc/passwd.safetensors" }, /version_refused .*\.\./],
    ["model_file", { model_file: "global/../nodes/x.safetensors" }, /version_refused .*\.\./],
    ["model_file", { model_file: "nodes/a/delta_1.safetensors" }, /version_refused .*outside of global/],
    ["model_file", { model_file: "/etc/passwd.safetensors" }, /version_refused .*outside of global/],
    ["model_file", { model_file: "global/a\u0000b.safetensors" }, /version_refused .*names of letters/],
    [
      "model_file",
      { model_file: "https://evil.example/global/x.safetensors" },
      /version_refused .*outside of global/,
    ],
    ["model_file", { model_file: { path: "global/x.safetensors" } }, /version_refused .*must be a text/],
    ["ledger_file", { ledger_file: "../ledger.json" }, /version_refused .*no plain path/],
    ["ledger_file", { ledger_file: "global/../../x.json" }, /version_refused .*no plain path/],
    ["model_sha256", { model_sha256: "0".repeat(63) }, /version_refused .*no SHA-256/],
    ["ledger_sha256", { ledger_sha256: "0".repeat(64) }, /node_waiting .*the version record says/],
    ["depth", { leases: deep }, /version_refused .*nested more than 32 deep/],
    ["fingerprint", { fingerprint: { d_model: 4096 } }, /version_refused .*d_model is 4096, this run has 8/],
  ])("%s %j", async (_, fields, words) => {
    const { model, told, opened } = await followers(crafted(fields));
    expect([...model.weights]).toEqual([1, 2]);
    expect(opened).toBe(0);
    expect(told.join("\n")).toMatch(words);
  });

  it("wrong hash of the weights: fetched, compared, and not installed", async () => {
    const { model, told } = await followers(crafted({ model_sha256: "0".repeat(64) }));
    expect([...model.weights]).toEqual([1, 2]);
    expect(told.join("\n")).toContain("its SHA-256 is not the one in the version record");
  });

  it("weights that are far too large for the model are refused before they are fetched", async () => {
    const huge = new Uint8Array(3 * 2 ** 20);
    const { bench, model, told } = await followers(
      crafted(
        { model_file: "global/huge.safetensors", model_sha256: null },
        { "global/huge.safetensors": huge },
      ),
    );
    expect([...model.weights]).toEqual([1, 2]);
    expect(told.join("\n")).toMatch(
      /global_fetch_failed .*has 3145728 bytes, weights of this model have at most/,
    );
    expect((await bench.outbox.global.list()).filter((name) => name.includes("_000002"))).toEqual([]);
  });

  it("a new node does not begin with a number that no later version could pass", async () => {
    const bench = newBench();
    publish(bench.repo, { outerStep: 9_007_199_254_740_991, weights: [9, 9], applied: [] });
    const model = new TestModel([0, 0]);
    const started = bench.node().start(model);
    await bench.clock.advance(400_000);
    await started;
    expect([...model.weights]).toEqual([0, 0]);
    expect(bench.events).toContainEqual({
      event: "version_ignored",
      payload: { outer_step: 9_007_199_254_740_991, newest: -1, reason: "too_far_ahead" },
    });
  });

  it("the next good version is followed as if nothing had been", async () => {
    const { bench, model, node } = await followers(crafted({ outer_step: 9_007_199_254_740_991 }));
    publish(bench.repo, { outerStep: 2, weights: [5, 6], applied: [] });
    await bench.clock.advance(1500);
    await node.afterStep(model, 4, 1);
    expect(bench.events.filter(({ event }) => event === "global_installed").at(-1)!.payload.outer_step).toBe(
      2,
    );
  });
});

describe("security: a delta that is made to harm is rejected with a reason, and the others count", () => {
  const weights = [f32("w", 0, 0)];
  const good = () => deltaFile({ nodeId: "good" }, f32("w", -1, -1));
  const nested = (levels: number) => `{"d_model":${"[".repeat(levels)}${"]".repeat(levels)}}`;

  it.each([
    [
      "nested text in the header",
      () => deltaFile({ nodeId: "bad", extra: { fingerprint: nested(100_000) } }, f32("w", 1, 1)),
      /fingerprint/,
    ],
    [
      "nested text, not too deep for the stack",
      () => deltaFile({ nodeId: "bad", extra: { fingerprint: nested(3000) } }, f32("w", 1, 1)),
      /fingerprint/,
    ],
    ["no file of tensors", async () => new TextEncoder().encode("<html>404</html>"), /./],
    [
      "a header longer than the file",
      async () => Uint8Array.of(255, 255, 255, 255, 255, 255, 0, 0, 123),
      /./,
    ],
    ["nothing", async () => new Uint8Array(0), /./],
    ["far too many bytes", async () => new Uint8Array(4 * 2 ** 20), /^too_large: 4194304 bytes/],
    ["NaN", () => deltaFile({ nodeId: "bad" }, f32("w", Number.NaN, 1)), /^non_finite/],
    ["infinity", () => deltaFile({ nodeId: "bad" }, f32("w", Number.POSITIVE_INFINITY, 1)), /^non_finite/],
    ["the largest numbers there are", () => deltaFile({ nodeId: "bad" }, f32("w", 3e38, 3e38)), /^overflow/],
    ["another node's name", () => deltaFile({ nodeId: "good" }, f32("w", 1, 1)), /^invalid_header: node_id/],
    [
      "a base that does not exist yet",
      () => deltaFile({ nodeId: "bad", baseOuterStep: 9_007_199_254_740_991 }, f32("w", 1, 1)),
      /^unknown_base/,
    ],
    ["more tensors", () => deltaFile({ nodeId: "bad" }, f32("w", 1, 1), f32("x", 1)), /./],
    ["another shape", () => deltaFile({ nodeId: "bad" }, f32("w", 1, 1, 1)), /./],
  ])("%s", async (_, bad, reason) => {
    const repository = new FakeRepository();
    const { aggregator } = await start({
      repository,
      weights,
      fingerprint: { d_model: 8 },
      settings: { quorum: null, outerLr: 1, outerMomentum: 0 },
    });
    repository.write({
      "nodes/bad/delta_1.safetensors": await bad(),
      "nodes/good/delta_1.safetensors": await good(),
    });
    await aggregator.poll();
    expect(repository.record.outerStep).toBe(1);
    expect(repository.weights.w).toEqual([1, 1]);
    const entry = aggregator.run.ledger.entries.find(({ nodeId }) => nodeId === "bad")!;
    expect(entry).toMatchObject({ fate: "rejected", weight: 0, reason: expect.stringMatching(reason) });
    expect(entry.reason.length).toBeLessThan(500);
  });

  it("paths that are none are named and not opened", async () => {
    const repository = new FakeRepository();
    const { aggregator, events } = await start({ repository, weights });
    const paths = [
      "nodes/../x/delta_1.safetensors",
      "nodes/./delta_1.safetensors",
      "nodes/a/b/delta_1.safetensors",
      "nodes/a\u0000/delta_1.safetensors",
      "nodes/a/delta_9007199254740993.safetensors",
    ];
    repository.write(
      Object.fromEntries(await Promise.all(paths.map(async (path) => [path, await good()] as const))),
    );
    await aggregator.poll();
    const named = events.filter(([event]) => event === "delta_path_skipped").map(([, { path }]) => path);
    expect(new Set(named)).toEqual(new Set(paths));
    expect(repository.calls.filter((call) => call.startsWith("open nodes/"))).toEqual([]);
  });
});

describe("security: a record changed in the master's name", () => {
  const weights = [f32("w", 0, 0)];
  const forge = (repository: FakeRepository, fields: Readonly<Record<string, unknown>>) =>
    repository.write({ [RECORD]: JSON.stringify({ ...JSON.parse(repository.text(RECORD)), ...fields }) });

  it.each([9_007_199_254_740_991, 2, 0.9e15])(
    "version %d stops the master that is running, which says so",
    async (outerStep) => {
      const repository = new FakeRepository();
      const { aggregator } = await start({ repository, weights });
      forge(repository, { outer_step: outerStep });
      await expect(aggregator.poll()).rejects.toMatchObject({
        code: "aggregator.forged",
        message: expect.stringMatching(
          /names version \d+ in the name of master-1, which published version 0 last.*put the file back/,
        ),
      });
      expect(repository.commits).toHaveLength(1);
    },
  );

  it("a master does not start from a number that no run reaches", async () => {
    const repository = new FakeRepository();
    await start({ repository, weights });
    forge(repository, { outer_step: 9_007_199_254_740_991 });
    await expect(start({ repository })).rejects.toMatchObject({
      code: "aggregator.damaged_repository",
      message: expect.stringContaining("says outer_step 9007199254740991, which no run reaches"),
    });
  });

  it.each([
    [{ model_file: "nodes/x/delta_1.safetensors" }, /outside of global/],
    [{ momentum_file: "../../momentum.safetensors" }, /\.\./],
    [{ model_sha256: "0".repeat(64) }, /has SHA-256/],
    [{ ledger_sha256: "0".repeat(64) }, /has SHA-256/],
    [{ ledger_file: "nodes/x/ledger.json" }, /ledger_file is/],
  ])("%j: nor from files that are not those of the record", async (fields, words) => {
    const repository = new FakeRepository();
    await start({ repository, weights });
    forge(repository, fields);
    await expect(start({ repository })).rejects.toThrow(words);
  });

  it("nor from weights that are not the model's size", async () => {
    const repository = new FakeRepository();
    await start({ repository, weights });
    repository.write({ "global/huge.safetensors": new Uint8Array(4 * 2 ** 20) });
    forge(repository, { model_file: "global/huge.safetensors" });
    await expect(start({ repository, maxStateBytes: 2 ** 20 })).rejects.toThrow(
      /has 4194304 bytes, .* at most 1048576/,
    );
    expect(stateFile([1]).byteLength).toBeLessThan(2 ** 20);
  });
});
