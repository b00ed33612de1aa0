// Running statistics through a run: tracked micro-batch by micro-batch, used in evaluation, saved, and continued bit
// for bit.

import { loadCheckpoint } from "speedtronic/checkpoint";
import { createDataLoader } from "speedtronic/data";
import { BatchNorm, initialize, Linear, type ModelInputs, type ModelOutput, Module } from "speedtronic/nn";
import { cast, mean, mul, reshape, sub, type Tensor } from "speedtronic/tensor";
import { describe, expect, it } from "vitest";
import { collateCausal } from "../../src/data/collate.js";
import { FormulaDataset, localTrainer, temporaryFolder } from "./helpers.js";

/** Tells the next id from the present one, badly: what matters is what it tracks. */
class Normalised extends Module {
  readonly norm = new BatchNorm(1, { momentum: 0.5 });
  readonly head = new Linear(1, 1);

  forward({ input_ids, labels }: ModelInputs): ModelOutput {
    const flat = (t: Tensor) => reshape(cast(t, "float32"), [-1, 1]);
    const off = sub(this.head.forward(this.norm.forward(flat(input_ids!))), flat(labels!));
    return { loss: mean(mul(off, off)) };
  }
}

const build = (): Normalised => {
  const model = new Normalised();
  initialize(model, 3);
  return model;
};

const statistics = (model: Normalised) =>
  [model.norm.running_mean, model.norm.running_var, model.norm.num_batches_tracked].map(({ value }) => [
    ...value.data,
  ]);

describe("running statistics", () => {
  it("are those of the batches in turn, each micro-batch after the one before", async () => {
    const model = build();
    const { trainer, close } = await localTrainer({ model, maxSteps: 2, accumulationSteps: 2 });
    await trainer.fit();
    await close();
    const loader = createDataLoader({ dataset: new FormulaDataset(8), batchSize: 2, collate: collateCausal });
    let [center, variance] = [0, 1];
    for (let i = 0; i < 4; i++) {
      const values = [...(await loader.next()).batch.input_ids!.data];
      const average = values.reduce((a, b) => a + b, 0) / values.length;
      const spread = values.reduce((a, b) => a + (b - average) ** 2, 0) / (values.length - 1);
      center += 0.5 * (average - center);
      variance += 0.5 * (spread - variance);
    }
    const [foundMean, foundVar, count] = statistics(model);
    expect(foundMean![0]).toBeCloseTo(center, 5);
    expect(foundVar![0]).toBeCloseTo(variance, 4);
    expect(count).toEqual([4]);
  });

  it("are in checkpoints, and a resume continues them bit for bit", async () => {
    const run = async (folder: string, maxSteps: number, resume = false) => {
      const model = build();
      const { trainer, store, close } = await localTrainer({ model, maxSteps, folder });
      if (resume) await trainer.resume((await store!.loadNewestGood())!);
      await trainer.fit();
      await close();
      return model;
    };
    const [whole, halves] = [temporaryFolder(), temporaryFolder()];
    const uninterrupted = await run(whole, 4);
    await run(halves, 2);
    const continued = await run(halves, 4, true);
    expect(statistics(continued)).toEqual(statistics(uninterrupted));
    const { content } = await loadCheckpoint(halves);
    expect([...content.model.get("norm.running_mean")!.data]).toEqual(statistics(uninterrupted)[0]);
    expect(content.model.get("norm.num_batches_tracked")!.dtype).toBe("int32");
  });

  it("stay as they were where an update is skipped", async () => {
    const model = build();
    const broken = model.head.weight.data;
    broken.fill(Number.NaN);
    const { trainer, close } = await localTrainer({
      model,
      maxSteps: 2,
      nonFinite: { policy: "skip", maxConsecutiveSkips: 1 },
    });
    await expect(trainer.fit()).rejects.toMatchObject({ code: "train.non_finite" });
    await close();
    expect(statistics(model)).toEqual([[0], [1], [0]]);
  });

  it("are what evaluation uses, as they are at that moment", async () => {
    const model = build();
    const { trainer, close } = await localTrainer({
      model,
      maxSteps: 2,
      validation: {
        dataset: new FormulaDataset(4),
        batchSize: 2,
        everySteps: 1,
        maxBatches: null,
        isByteLevel: false,
      },
    });
    const { validation } = await trainer.fit();
    await close();
    expect(Number.isFinite(validation!.loss)).toBe(true);
    expect(statistics(model)[2]).toEqual([2]);
  });
});
