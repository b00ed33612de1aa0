// Known limits of state that is no weights: running statistics must not get momentum, counters must not be reset, and a
// momentum that does not belong to the weights must not be used.

import { createHash } from "node:crypto";
import { buildRuntime, trainFromConfig } from "speedtronic";
import { initialize, Buffer as ModelBuffer, ReferenceTransformer } from "speedtronic/nn";
import { describe, expect, test } from "vitest";
import { diskSurroundings } from "../../../src/distributed/node/aggregator-disk.node.js";
import { verifyRun } from "../../../src/distributed/node/run-verify.js";
import type { LocalModel } from "../../../src/distributed/node/worker-driver.js";
import { MemoryTransport } from "../../../src/distributed/transports/memory.js";
import { parseVersionRecord } from "../../../src/distributed/wire/index.js";
import { encodeSafetensors, type TensorInput } from "../../../src/formats/safetensors/index.js";
import type { TensorData } from "../../../src/tensor/dtype.js";
import { temporaryFolder, tinyConfig } from "../../train/helpers.js";
import { deltaFile, FakeClock, FakeRepository, start } from "../aggregator/repository.js";
import { newBench, publish } from "../node/bench.js";
import { f32, fileValues } from "../states.js";

const settings = { outerLr: 0.5, outerMomentum: 0.5, keepVersions: 10 };
const bufferPolicies = { mean: "average", peak: "max", table: "copy", own: "local" } as const;
const floats = (w: number, mean: number, peak: number, table = 0, own = 0) => [
  f32("w", w),
  f32("mean", mean),
  f32("peak", peak),
  f32("table", table),
  f32("own", own),
];
const count: TensorInput = { name: "count", dtype: "I32", shape: [1], data: Int32Array.of(9) };

async function send(repository: FakeRepository, nodeId: string, base: number, ...tensors: TensorInput[]) {
  const bytes = await deltaFile({ nodeId, baseOuterStep: base }, ...tensors);
  repository.write({ [`nodes/${nodeId}/delta_${repository.revisions.length}.safetensors`]: bytes });
}

describe("L-09: buffers in a round", () => {
  async function run() {
    const repository = new FakeRepository();
    const weights = [...floats(10, 1, 2, 5, 6), count];
    const { aggregator, folder } = await start({ repository, weights, settings, bufferPolicies });
    // Nodes that have 3 and 5 as mean, 1 and 7 as peak.
    await send(repository, "a", 0, ...floats(1, -2, 1, 9, 9));
    await send(repository, "b", 0, ...floats(3, -4, -5, 9, 9));
    await aggregator.poll();
    return { repository, aggregator, folder };
  }

  test("follow their policies, and have no momentum", async () => {
    const { repository } = await run();
    expect(repository.weights).toMatchObject({ mean: [4], peak: [7], table: [5], own: [6] });
    expect(repository.weights.w).toEqual([10 - 0.5 * (2 + 0.5 * 2)]);
    const momentum = fileValues(repository.files.get("global/momentum_000001.safetensors")!);
    expect(momentum).toEqual({ w: [2], mean: [0], peak: [0], table: [0], own: [0] });
  });

  test("keep them under the next master, which is told nothing, and in a verification", async () => {
    const { repository } = await run();
    const { aggregator } = await start({ repository, settings });
    await send(repository, "b", 1, ...floats(3, 2, 0));
    await aggregator.poll();
    expect(repository.weights).toMatchObject({ mean: [2], peak: [7], table: [5] });
    const surroundings = await diskSurroundings(temporaryFolder(), new FakeClock());
    const { documents, versions } = await verifyRun({ transport: repository, surroundings });
    expect(documents).toEqual([]);
    expect(versions.map(({ verdict }) => verdict.kind)).toEqual(["unverifiable", "verified", "verified"]);
  });

  test("leave out deltas from other versions, which could make a variance negative", async () => {
    const { repository, aggregator } = await run();
    await send(repository, "a", 0, ...floats(1, 100, -100));
    await send(repository, "b", 1, ...floats(1, 2, 0));
    await aggregator.poll();
    // Half of what b has, half of what was there.
    expect(repository.weights).toMatchObject({ mean: [3], peak: [7] });
  });

  test("are weights without a policy, as for a Python master", async () => {
    const repository = new FakeRepository();
    const { aggregator } = await start({ repository, weights: floats(10, 1, 2), settings });
    await send(repository, "a", 0, ...floats(2, 2, 2));
    await aggregator.poll();
    expect(repository.weights).toMatchObject({ w: [8.5], mean: [-0.5], peak: [0.5] });
    expect(repository.record.extra).not.toHaveProperty("buffer_policies");
  });

  test("get their policies when a Python master's run is taken over", async () => {
    const repository = new FakeRepository();
    repository.write({
      "global/latest.safetensors": encodeSafetensors(floats(10, 1, 2)),
      "global/step_count.json": '{"outer_step": 4, "model_file": "global/latest.safetensors"}',
    });
    const { aggregator } = await start({ repository, settings, bufferPolicies, takeOver: true });
    await send(repository, "a", 4, ...floats(2, -2, 0));
    await aggregator.poll();
    expect(repository.weights).toMatchObject({ w: [8.5], mean: [3], peak: [2] });
  });

  test("with other policies than the run's are refused by name", async () => {
    const { repository } = await run();
    const other = start({ repository, bufferPolicies: { ...bufferPolicies, mean: "local" } });
    await expect(other).rejects.toThrow("buffer mean is merged as average, here as local");
    const without = new FakeRepository();
    await start({ repository: without, weights: floats(1, 1, 1) });
    const late = start({ repository: without, bufferPolicies });
    await expect(late).rejects.toThrow("buffer mean is merged as weights, here as average");
  });
});

/** Weights, a running statistic and a counter, as values to set. */
class Model implements LocalModel {
  w = 1;
  mean = 1;
  count = 7;

  async readState() {
    const one = (value: number): TensorData => ({
      dtype: "float32",
      shape: [1],
      data: Float32Array.of(value),
    });
    return new Map<string, TensorData>([
      ["w", one(this.w)],
      ["mean", one(this.mean)],
      ["count", { dtype: "int32", shape: [1], data: Int32Array.of(this.count) }],
    ]);
  }

  async writeState(values: ReadonlyMap<string, TensorData>) {
    const value = (name: string) => values.get(name)!.data[0]!;
    [this.w, this.mean, this.count] = [value("w"), value("mean"), value("count")];
  }
}

describe("L-10: buffers on a node", () => {
  async function run(policy: "copy" | "local") {
    const { repo, clock, node } = newBench({
      innerSteps: 1,
      bufferPolicies: { mean: "average", count: policy },
    });
    const master = (outerStep: number, mean: number) =>
      publish(repo, {
        outerStep,
        weights: [],
        applied: [],
        file: encodeSafetensors([f32("w", outerStep), f32("mean", mean), count]),
      });
    master(100, 3);
    const model = new Model();
    const worker = node();
    await worker.start(model);
    const first = { ...model };
    Object.assign(model, { w: model.w + 1, mean: 8, count: model.count + 1 });
    await worker.afterStep(model, 1, 1);
    master(101, 4);
    await clock.advance(2000);
    Object.assign(model, { w: model.w + 2, mean: 9, count: model.count + 1 });
    await worker.afterStep(model, 2, 1);
    await worker.stop(model, 0);
    return { first, last: { ...model } };
  }

  test("come with the first version; then a counter is the node's own, and a mean the version's", async () => {
    const { first, last } = await run("local");
    expect(first).toEqual({ w: 100, mean: 3, count: 9 });
    expect(last).toEqual({ w: 101 + 1 + 2, mean: 4, count: 11 });
  });

  test("are the version's where the model says so", async () => {
    expect((await run("copy")).last).toEqual({ w: 104, mean: 4, count: 9 });
  });

  test("have a policy in every model, which a run publishes", async () => {
    class WithBuffers extends ReferenceTransformer {
      readonly seen = new ModelBuffer({ dtype: "int32", shape: [1], data: Int32Array.of(3) });
      readonly mean = new ModelBuffer({ dtype: "float32", shape: [1], data: Float32Array.of(0.5) });
      readonly top = new ModelBuffer(
        { dtype: "float32", shape: [1], data: Float32Array.of(0.5) },
        { merge: "max" },
      );
    }
    const plain = await buildRuntime(tinyConfig(temporaryFolder()));
    const { vocabSize, blockSize } = plain.model as ReferenceTransformer;
    await plain.close();
    const transport = new MemoryTransport();
    const distributed = {
      enabled: true,
      role: "master" as const,
      repo_id: "a/b",
      node_id: "m",
      inner_steps: 1,
    };
    const config = { ...tinyConfig(temporaryFolder(), { run: { max_steps: 2 } }), distributed };
    const model = new WithBuffers({ vocabSize, blockSize, nLayer: 1, nHead: 2, dModel: 8, dFf: 12 });
    initialize(model, 1);
    await trainFromConfig(config, { transport, model });
    const head = await transport.head();
    const record = parseVersionRecord((await transport.read(head, "global/step_count.json", 2 ** 20))!);
    expect(record.outerStep).toBeGreaterThan(0);
    expect(record.extra.buffer_policies).toEqual({ mean: "average", seen: "local", top: "max" });
    const values = Int32Array.of(3);
    expect(() => new ModelBuffer({ dtype: "int32", shape: [1], data: values }, { merge: "max" })).toThrow(
      'cannot be merged as "max"',
    );
  });
});

test("L-12: a momentum of other tensors than the weights' stops the start, although its hash is right", async () => {
  const repository = new FakeRepository();
  const weights = [f32("w", 1, 2), f32("v", 3)];
  const { aggregator } = await start({ repository, weights, settings });
  await send(repository, "a", 0, ...weights);
  await aggregator.poll();
  const path = "global/momentum_000001.safetensors";
  const { extra } = repository.record;
  for (const momentum of [[f32("w", 1), f32("v", 1)], [f32("w", 1, 2)], [...weights, f32("u", 1)]]) {
    const bytes = encodeSafetensors(momentum);
    const sha256 = createHash("sha256").update(bytes).digest("hex");
    const record = repository.text("global/step_count.json");
    repository.write({
      [path]: bytes,
      "global/step_count.json": record.replace(String(repository.record.extra.momentum_sha256), sha256),
    });
    await expect(start({ repository, settings })).rejects.toMatchObject({
      code: "aggregator.damaged_repository",
      message: expect.stringMatching(/momentum_000001\.safetensors does not fit the weights .*"?[wuv]"?/),
    });
  }
  expect(repository.record.extra.master_term).toBe(extra.master_term);
});
