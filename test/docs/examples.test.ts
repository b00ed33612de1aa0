// The examples, run as a reader would run them, with fewer steps: each trains, through the public API alone.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { loadModel } from "speedtronic/checkpoint";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import * as coordinator from "../../examples/custom-coordinator.js";
import * as dataset from "../../examples/custom-dataset.js";
import * as gpt2 from "../../examples/gpt2-style.js";
import * as hooks from "../../examples/hooks.js";
import * as images from "../../examples/image-classifier.js";
import * as classifier from "../../examples/mlp-classifier.js";
import * as recomputing from "../../examples/recomputing-model.js";
import * as tagger from "../../examples/sequence-tagger.js";

let folder = "";
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "speedtronic-examples-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("examples", () => {
  it("mlp-classifier: a model without language learns in the same loop", async () => {
    const { loss, accuracy } = await classifier.main({ steps: 150 });
    expect(loss).toBeLessThan(0.3);
    expect(accuracy).toBeGreaterThan(0.9);
  });

  it("image-classifier: convolutions and batch statistics learn, and the statistics are tracked", async () => {
    const { loss, accuracy, model } = await images.main({ steps: 60 });
    expect(loss).toBeLessThan(0.3);
    expect(accuracy).toBeGreaterThan(0.9);
    const buffers = model.namedBuffers();
    expect([...buffers.get("features.1.num_batches_tracked")!.value.data]).toEqual([60]);
    expect(buffers.get("features.5.running_var")!.value.data.some((x) => x !== 1)).toBe(true);
  });

  it("sequence-tagger: a recurrent network tags sequences of different lengths", async () => {
    const { loss, accuracy } = await tagger.main({ steps: 40 });
    expect(loss).toBeLessThan(0.3);
    expect(accuracy).toBeGreaterThan(0.9);
  });

  it("gpt2-style: a registered model is trained by name and saved", async () => {
    const outputDir = join(folder, "gpt2");
    const { steps, finalLoss } = await gpt2.main({ steps: 12, outputDir });
    expect(steps).toBe(12);
    expect(finalLoss).toBeLessThan(Math.log(256) - 1);
    const { content } = await loadModel(outputDir);
    expect(content.model.get("transformer.h.1.attn.c_attn.bias")?.shape).toEqual([192]);
  });

  it("hooks: a function records every step, an object ends the run", async () => {
    const { result, losses } = await hooks.main({ outputDir: join(folder, "hooks") });
    expect(result.stop).toEqual({ kind: "stopped", cause: "loss is below 1.5" });
    expect(losses).toHaveLength(result.steps);
    expect(losses.at(-1)).toBe(result.finalLoss);
    expect(losses.findIndex((loss) => loss < 1.5)).toBe(losses.length - 1);
  });

  it("custom-dataset: the loader takes the same objects as a run", async () => {
    const data = await dataset.openSums();
    const { batch, samples, targetTokens } = await data.train.next();
    expect([batch.input_ids?.shape, samples, targetTokens]).toEqual([[25, 5], 25, 50]);
    expect(data.train.position()).toEqual({ epoch: 0, position: 25 });
    await data.train.close();

    const { loss, answer } = await dataset.main({ steps: 40 });
    expect(loss).toBeLessThan(2);
    expect(answer).toMatch(/^[0-9]{2}$/);
  });

  it("recomputing-model: a model with the seam is asked, and trains", async () => {
    const model = await recomputing.main(join(folder, "recomputing"));
    expect(model.recomputes).toBe(true);
    expect(
      model
        .stateDict()
        .get("head.weight")
        ?.data.some((x) => x !== 0),
    ).toBe(true);
  });

  it("custom-coordinator: two runs meet, and hold the same weights after the last averaging", async () => {
    const { results, rounds } = await coordinator.main({ steps: 4, everySteps: 2, outputDir: folder });
    expect(results.map(({ steps }) => steps)).toEqual([4, 4]);
    expect(rounds).toEqual([2, 2]);
    const [first, second] = await Promise.all(["0", "1"].map((run) => loadModel(join(folder, run))));
    expect(first!.content.model).toEqual(second!.content.model);
    expect(first!.content.config).not.toEqual(second!.content.config);
  });
});
