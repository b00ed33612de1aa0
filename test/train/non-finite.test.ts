// What happens when numbers break: nothing is applied, nothing good is overwritten, and skipping has a bound.

import { TrainingError, trainFromConfig } from "speedtronic";
import { loadCheckpoint } from "speedtronic/checkpoint";
import type { DataLoader, DataPosition, LoadedBatch } from "speedtronic/data";
import { Linear, type ModelInputs, type ModelOutput, Module, type TrainableModel } from "speedtronic/nn";
import { mean, mul, sub } from "speedtronic/tensor";
import { describe, expect, it } from "vitest";
import { folderState, localTrainer, recordEvents, temporaryFolder, tinyConfig } from "./helpers.js";

/** Fits y = Wx + b to 1; a batch with a NaN in it gives a NaN loss. */
class Fit extends Module implements TrainableModel {
  readonly layer = new Linear(2, 1);

  forward({ x }: ModelInputs): ModelOutput {
    const error = sub(this.layer.forward(x!), 1);
    return { loss: mean(mul(error, error)) };
  }
}

/** Batch i is [i, 1], or a NaN where `isBroken(i)`. */
class Batches implements DataLoader {
  readonly batchesPerEpoch = 1000;
  #next = 0;

  constructor(private readonly isBroken: (batch: number) => boolean) {}

  async next(): Promise<LoadedBatch> {
    const i = this.#next++;
    const data = Float32Array.of(this.isBroken(i) ? Number.NaN : Math.sin(i), 1);
    const batch = { x: { dtype: "float32" as const, shape: [1, 2], data } };
    return { batch, samples: 1, tokens: 1, targetTokens: 1, epoch: 0 };
  }

  position(): DataPosition {
    return { epoch: 0, position: this.#next };
  }

  seek({ position }: DataPosition): void {
    this.#next = position;
  }

  async close(): Promise<void> {}
}

const fitWith = async (
  isBroken: (batch: number) => boolean,
  nonFinite: { policy: "stop" | "skip"; maxConsecutiveSkips: number },
  maxSteps = 6,
) => {
  const events = recordEvents();
  const folder = temporaryFolder();
  const run = await localTrainer({
    model: new Fit(),
    loader: new Batches(isBroken),
    nonFinite,
    maxSteps,
    folder,
    events,
  });
  return { ...run, events, folder };
};

describe("policy stop", () => {
  it("ends the run, keeps the last good checkpoint and the weights", async () => {
    const { trainer, engine, events, folder, close } = await fitWith((i) => i === 5, {
      policy: "stop",
      maxConsecutiveSkips: 10,
    });
    const error = await trainer.fit().catch((e: unknown) => e);
    expect(error).toBeInstanceOf(TrainingError);
    expect(error).toMatchObject({
      code: "train.non_finite",
      exitCode: 5,
      details: { step: 6, loss: Number.NaN },
      message: expect.stringContaining("step 6: the loss is NaN; the weights of step 5 were kept"),
    });
    expect(trainer.step).toBe(5);
    // Saving goes on beside training: the second may be reported after the failure.
    expect(
      events
        .names()
        .filter((name) => !name.startsWith("train"))
        .sort(),
    ).toEqual(["checkpoint:2", "checkpoint:4", "optimizer_step_skipped:6"]);
    expect(events.of("optimizer_step_skipped")[0]).toMatchObject({
      step: 6,
      reason: "non_finite_loss",
      loss: Number.NaN,
      grad_norm: Number.NaN,
      consecutive: 1,
    });
    const { content, info } = await loadCheckpoint(folder);
    expect(info.step).toBe(4);
    for (const { data } of [...content.model.values(), ...(await engine.readParameters()).values()])
      expect(data.every(Number.isFinite)).toBe(true);
    await close();
  });

  it("is how an absurd learning rate ends, and a resumed run ends the same way without writing", async () => {
    const outputDir = temporaryFolder();
    await trainFromConfig(tinyConfig(outputDir, { run: { max_steps: 2 } }));
    const before = await folderState(outputDir);
    const config = tinyConfig(outputDir, { run: { max_steps: 100 }, optimizer: { lr: 1e30 } });
    const error = await trainFromConfig(config, { resume: true }).catch((e: unknown) => e);
    expect(error).toBeInstanceOf(TrainingError);
    expect(error).toMatchObject({ code: "train.non_finite" });
    const { step } = (error as TrainingError).details as { step: number };
    expect(step).toBeLessThan(10);
    // Only what was good when it was saved: everything from before, and perhaps periodic saves after it.
    const after = await folderState(outputDir);
    const kept = Object.keys(before).filter((name) => /step-000000000002\//.test(name));
    expect(kept.length).toBeGreaterThan(3);
    for (const name of kept) expect([name, after[name]]).toEqual([name, before[name]]);
    const { content } = await loadCheckpoint(outputDir);
    for (const [name, { data }] of content.model)
      expect([name, data.every(Number.isFinite)]).toEqual([name, true]);
  });
});

describe("policy skip", () => {
  it("leaves out broken updates and goes on with the next batches", async () => {
    const { trainer, engine, events, close } = await fitWith((i) => [1, 4, 5].includes(i), {
      policy: "skip",
      maxConsecutiveSkips: 2,
    });
    const result = await trainer.fit();
    // Nine batches were drawn for six updates; only those six count.
    expect(result).toMatchObject({ steps: 6, samples: 6, tokens: 6, stop: { kind: "target" } });
    expect(events.of("optimizer_step_skipped").map(({ step, consecutive }) => [step, consecutive])).toEqual([
      [2, 1],
      [4, 1],
      [4, 2],
    ]);
    const parameters = await engine.readParameters();
    await close();

    // The weights are those of a run that never saw the broken batches.
    const clean = new Batches(() => false);
    const wanted = [0, 2, 3, 6, 7, 8];
    const loader: DataLoader = {
      batchesPerEpoch: 1000,
      next: async () => {
        clean.seek({ epoch: 0, position: wanted.shift()! });
        return clean.next();
      },
      position: () => clean.position(),
      seek: (position) => clean.seek(position),
      close: async () => {},
    };
    const other = await localTrainer({ model: new Fit(), loader, maxSteps: 6 });
    await other.trainer.fit();
    expect(await other.engine.readParameters()).toEqual(parameters);
    const losses = events.of("train_step").map(({ loss }) => loss);
    expect(losses.every(Number.isFinite)).toBe(true);
    expect(result.finalLoss).toBe(losses.at(-1));
    await other.close();
  });

  it("gives up after too many in a row", async () => {
    const { trainer, events, close } = await fitWith((i) => i >= 3, {
      policy: "skip",
      maxConsecutiveSkips: 2,
    });
    const error = await trainer.fit().catch((e: unknown) => e);
    expect(error).toBeInstanceOf(TrainingError);
    expect((error as Error).message).toContain("step 4: the loss is NaN for 3 updates in a row");
    expect(events.of("optimizer_step_skipped").map(({ consecutive }) => consecutive)).toEqual([1, 2, 3]);
    expect(events.names().at(-1)).toBe("train_end");
    await close();
  });

  it("saves the count of skips and the place in the data", async () => {
    const { trainer, folder, close } = await fitWith(
      (i) => i === 1,
      { policy: "skip", maxConsecutiveSkips: 1 },
      3,
    );
    await trainer.fit();
    const { content } = await loadCheckpoint(folder);
    expect(content.trainer).toMatchObject({
      step: 3,
      samples: 3,
      data: { epoch: 0, position: 4 },
      counters: { microbatches: 4, optimizerUpdates: 3, skippedUpdates: 1 },
    });
    await close();
  });
});
