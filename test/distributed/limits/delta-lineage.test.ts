// What a delta says about itself, and what a version must be to be installed at all.

import { createHash } from "node:crypto";
import { expect, it } from "vitest";

import { loadDelta } from "../../../src/distributed/wire/index.js";
import { bytesSource, encodeSafetensors } from "../../../src/formats/safetensors/index.js";
import { deltasIn, newBench, publish, settle, TestModel } from "../node/bench.js";

const sha256 = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex");
const f32 = (name: string, ...values: number[]) => ({
  name,
  dtype: "F32" as const,
  shape: [values.length],
  data: Float32Array.from(values),
});
const count = (data: Int32Array | Float32Array = Int32Array.of(7)) => ({
  name: "count",
  dtype: data instanceof Int32Array ? ("I32" as const) : ("F32" as const),
  shape: [1],
  data,
});

it("L-38 L-41: a header names version, delta before and length, so that what it was measured from is known", async () => {
  const { repo, clock, node } = newBench({ innerSteps: 2, maxQueued: 4 });
  publish(repo, { outerStep: 4, weights: [10], applied: [] });
  const model = new TestModel([0]);
  const worker = node();
  await worker.start(model);
  const step = async (at: number, amount: number) => {
    model.train(amount);
    const isInstalled = await worker.afterStep(model, at, 10);
    await settle();
    return isInstalled;
  };
  for (const at of [12, 13, 14, 15]) await step(at, 1);
  const [first] = [...(await deltasIn(repo)).keys()];
  publish(repo, { outerStep: 5, weights: [111], applied: [first!] });
  await clock.advance(1000);
  // Two steps after the last delta, whatever number they have and whatever is installed in between.
  expect(await step(16, 1)).toBe(true);
  await step(17, 1);
  const files = [...repo.files].filter(([path]) => path.startsWith("nodes/"));
  const found = [];
  for (const [, bytes] of files) {
    const { header } = await loadDelta(bytesSource(bytes));
    const { extra, baseOuterStep, localStep } = header;
    found.push([baseOuterStep, localStep, extra.get("steps"), extra.get("previous_sha256")]);
  }
  expect(found).toEqual([
    [4, 13, "2", ""],
    [4, 15, "2", sha256(files[0]![1])],
    [5, 17, "2", sha256(files[1]![1])],
  ]);
  // The third is measured from version 5 with the second delta on top, which is what base and chain say.
  expect([...(await deltasIn(repo)).values()]).toEqual([[-2], [-2], [-2]]);
  await worker.stop(model, 0);
});

it.each([
  ["a tensor is missing", [f32("w", 5, 6), count()], "tied"],
  ["there is one more", [f32("w", 5, 6), f32("tied", 5, 6), count(), f32("extra", 1)], "extra"],
  ["a shape differs", [f32("w", 5), f32("tied", 5), count()], "w"],
  ["a counter has become a float", [f32("w", 5, 6), f32("tied", 5, 6), count(Float32Array.of(7))], "count"],
] as const)(
  "L-40: nothing of a version is installed where %s, and the node says so",
  async (_, tensors, name) => {
    const { repo, node, events } = newBench();
    publish(repo, { outerStep: 1, weights: [], applied: [], file: encodeSafetensors([...tensors]) });
    const model = new TestModel([1, 2]);
    const worker = node();
    await expect(worker.start(model)).rejects.toMatchObject({ code: "node.other_model" });
    expect([...model.weights, ...model.count]).toEqual([1, 2, 7]);
    expect(worker.state.installed).toBeUndefined();
    const failures = events.filter(({ event }) => event === "global_fetch_failed");
    expect(failures).toMatchObject([{ payload: { outer_step: 1, is_permanent: true } }]);
    expect(failures[0]!.payload.error).toContain(`"${name}"`);
  },
);
