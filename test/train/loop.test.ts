// The loop itself: where an epoch begins anew, and updates whose microbatches all have other shapes.

import { describe, expect, it } from "vitest";
import { smallTransformer } from "../engine/fixtures.js";
import { FormulaDataset, localTrainer, recordEvents } from "./helpers.js";

describe("events and epochs", () => {
  it("tell when the data begins anew", async () => {
    const events = recordEvents();
    const dataset = new FormulaDataset(6);
    const run = await localTrainer({ model: smallTransformer(), dataset, events, maxSteps: 7 });
    await run.trainer.fit();
    expect(events.of("data_epoch").map(({ epoch, step }) => [epoch, step])).toEqual([
      [1, 4],
      [2, 7],
    ]);
    expect(events.of("train_step").map(({ epoch }) => epoch)).toEqual([0, 0, 0, 1, 1, 1, 2]);
    await run.close();
  });
});

describe("many shapes in one update", () => {
  it("are all compiled and kept until the update is done", async () => {
    // Twelve microbatches of twelve lengths: more than are kept between updates by default.
    const lengths = Array.from({ length: 12 }, (_, i) => i + 1);
    const model = smallTransformer({ blockSize: 12 });
    const dataset = new FormulaDataset(24, lengths);
    const run = await localTrainer({ model, dataset, batchSize: 1, accumulationSteps: 12, maxSteps: 3 });
    const result = await run.trainer.fit();
    expect(result).toMatchObject({ steps: 3, samples: 36, tokens: 3 * 78 });
    await run.close();
  });
});
