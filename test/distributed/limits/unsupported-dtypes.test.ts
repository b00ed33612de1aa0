// Models of numbers that have no outer step: refused at the start, with the tensor's name, before anything is claimed or
// published; and on the node, which keeps what it has.

import { describe, expect, test } from "vitest";
import { encodeSafetensors, type TensorInput } from "../../../src/formats/safetensors/index.js";
import { FakeRepository, start } from "../aggregator/repository.js";
import { newBench, publish, TestModel } from "../node/bench.js";

const kinds: readonly (readonly [string, TensorInput, RegExp])[] = [
  ["complex", { name: "w", dtype: "C64", shape: [1], data: new Uint8Array(8) }, /"w".*is complex/],
  [
    "float8",
    { name: "w", dtype: "F8_E4M3", shape: [1], data: new Uint8Array(1) },
    /"w".*is F8_E4M3 \(8 bits/,
  ],
];

describe.each(kinds)("L-94: a %s model", (_, tensor, message) => {
  const refusal = expect.objectContaining({
    code: "wire.unsupported_dtype",
    message: expect.stringMatching(message),
  });

  test("does not become a run", async () => {
    const repository = new FakeRepository();
    await expect(start({ repository, weights: [tensor] })).rejects.toEqual(refusal);
    expect(repository.commits).toEqual([]);
  });

  test("is not taken over from a Python master", async () => {
    const repository = new FakeRepository();
    repository.write({
      "global/latest.safetensors": encodeSafetensors([tensor]),
      "global/step_count.json": JSON.stringify({
        algorithm: "dumb_diloco",
        model_file: "global/latest.safetensors",
        outer_step: 4,
      }),
    });
    await expect(start({ repository, takeOver: true })).rejects.toEqual(refusal);
    expect(repository.commits).toEqual([]);
  });

  test("does not get into a node that trains another one", async () => {
    const { repo, node, events } = newBench();
    const count: TensorInput = { name: "count", dtype: "I32", shape: [1], data: Int32Array.of(1) };
    const file = encodeSafetensors([tensor, { ...tensor, name: "tied" }, count]);
    publish(repo, { outerStep: 3, weights: [], applied: [], file });
    const model = new TestModel([1]);
    const worker = node();
    await expect(worker.start(model)).rejects.toMatchObject({ code: "node.other_model", exitCode: 6 });
    expect([...model.weights]).toEqual([1]);
    const failed = events.filter(({ event }) => event === "global_fetch_failed");
    const reason = expect.stringMatching(/is complex|is F8_E4M3 \(8 bits/);
    expect(failed.map(({ payload }) => payload)).toEqual([
      { outer_step: 3, is_permanent: true, error: reason },
    ]);
  });
});
