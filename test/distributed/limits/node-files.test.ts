// Files that a node keeps: none of another run, another version or half a download is ever taken for a good one.

import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";

import { globalFileName } from "../../../src/distributed/node/fetch-version.js";
import { diskOutbox } from "../../../src/distributed/node/outbox.node.js";
import type { SeenVersion } from "../../../src/distributed/protocol/index.js";
import { deltasIn, newBench, publish, settle, stateFile, TestModel } from "../node/bench.js";

const write = (bytes: Uint8Array) => async (sink: { write(chunk: Uint8Array): Promise<void> }) =>
  sink.write(bytes);

it.each([
  ["of our master, by the hash in its record", []],
  ["of a master without hashes, since nothing vouches for the file", undefined],
] as const)("L-59: weights of another run under the same number are not taken: %s", async (_, applied) => {
  const { repo, node, outbox } = newBench();
  publish(repo, { outerStep: 3, weights: [5, 6], ...(applied && { applied }) });
  const record = JSON.parse(new TextDecoder().decode(repo.files.get("global/step_count.json")));
  const version = { outerStep: 3, revision: "1", modelSha256: record.model_sha256 } as SeenVersion;
  await outbox.global.write(globalFileName(version), write(stateFile([8, 9])));
  const model = new TestModel([1, 2]);
  const worker = node();
  await worker.start(model);
  expect([...model.weights]).toEqual([5, 6]);
  expect(await outbox.global.list()).toEqual([globalFileName(version)]);
  await worker.stop(model, 0);
});

it("L-61: record, ledger and weights are read at one commit, whatever is committed in between", async () => {
  const { repo, clock, node, events } = newBench();
  publish(repo, { outerStep: 1, weights: [5], applied: [] });
  let reads = 0;
  repo.fault = (call) => {
    // After the record of version 1 was read: the same files get other content.
    if (call === "read" && ++reads === 2) {
      const file = stateFile([7]);
      publish(repo, { outerStep: 2, weights: [7], applied: [] });
      repo.put({ "global/step_1.safetensors": file });
    }
    return undefined;
  };
  const model = new TestModel([1]);
  const worker = node();
  await worker.start(model);
  expect([...model.weights]).toEqual([5]);
  await clock.advance(1000);
  await worker.afterStep(model, 1, 1);
  expect([...model.weights]).toEqual([7]);
  const installed = events.filter(({ event }) => event === "global_installed");
  expect(installed.map(({ payload }) => payload.outer_step)).toEqual([1, 2]);
  await worker.stop(model, 0);
});

it("L-70: a node that runs for long keeps two versions, a few baselines, and the deltas without a fate", async () => {
  const { repo, clock, node, outbox } = newBench({ innerSteps: 1, keepBaselines: 3 });
  publish(repo, { outerStep: 0, weights: [0], applied: [] });
  const model = new TestModel([0]);
  const worker = node();
  await worker.start(model);
  for (let round = 1; round <= 8; round++) {
    model.train(1);
    await worker.afterStep(model, round, 1);
    await worker.checkpoint();
    await settle();
    publish(repo, { outerStep: round, weights: [round], applied: [...(await deltasIn(repo)).keys()] });
    await clock.advance(1000);
  }
  expect(worker.state.installed).toBe(7);
  expect(await outbox.global.list()).toHaveLength(2);
  expect(await outbox.baselines.list()).toHaveLength(3);
  expect(await outbox.outgoing.list()).toEqual(["delta_8.safetensors"]);
  await worker.stop(model, 0);
});

it("L-74: a download that turns out to be malformed replaces nothing", async () => {
  const { repo, clock, node, outbox } = newBench();
  publish(repo, { outerStep: 1, weights: [5], applied: [] });
  const model = new TestModel([1]);
  const worker = node();
  await worker.start(model);
  const before = await outbox.global.list();
  publish(repo, { outerStep: 2, weights: [6], applied: [], file: Uint8Array.of(1, 2, 3) });
  await clock.advance(5000);
  await worker.afterStep(model, 1, 1);
  expect([await outbox.global.list(), [...model.weights]]).toEqual([before, [5]]);
  expect((await outbox.global.open(before[0]!)).sizeBytes).toBe(stateFile([5]).byteLength);
  await worker.stop(model, 0);
});

it("L-74: a write on disk that fails leaves the file before it, and two at once leave one whole file", async () => {
  const folder = await mkdtemp(join(tmpdir(), "speedtronic-limits-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const { global } = await diskOutbox(folder);
  const content = async () => [...(await readFile(join(folder, "global", "a.safetensors")))];
  await global.write("a.safetensors", write(Uint8Array.of(1, 1)));
  const failed = global.write("a.safetensors", async (sink) => {
    await sink.write(Uint8Array.of(2));
    throw new Error("the line broke");
  });
  await expect(failed).rejects.toThrow("the line broke");
  expect(await content()).toEqual([1, 1]);
  await Promise.all([3, 4].map((value) => global.write("a.safetensors", write(Uint8Array.of(value, value)))));
  expect([
    [3, 3],
    [4, 4],
  ]).toContainEqual(await content());
  expect(await readdir(join(folder, "global"))).toEqual(["a.safetensors"]);
});
