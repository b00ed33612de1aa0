// Continuing a run: what is refused, what is told, and that three interruptions leave no trace in the bits.

import { cp } from "node:fs/promises";
import { join } from "node:path";
import {
  buildRuntime,
  CheckpointError,
  ConfigError,
  type ConfigInput,
  DataError,
  type RuntimeOptions,
  trainFromConfig,
} from "speedtronic";
import { loadCheckpoint } from "speedtronic/checkpoint";
import { describe, expect, it } from "vitest";
import { smallTransformer } from "../engine/fixtures.js";
import {
  bookFile,
  FormulaDataset,
  folderState,
  localTrainer,
  recordEvents,
  temporaryFolder,
  tinyConfig,
  weightHashes,
} from "./helpers.js";

async function resumed(config: ConfigInput, options: RuntimeOptions = {}) {
  const events = recordEvents();
  const result = await trainFromConfig(config, { resume: true, ...options, hooks: [events.hook] });
  return { result, events, resume: events.of("resume")[0], steps: events.of("train_step") };
}

describe("interruptions", () => {
  /** Dropout, accumulation, clipping, shuffling, prefetching, a short last batch: all that a resume could lose. */
  const config = (outputDir: string): ConfigInput => ({
    ...tinyConfig(outputDir, {
      run: { max_steps: 14 },
      model: { vocab_size: 256, dropout: 0.2 },
      data: {
        text_path: bookFile,
        validation_fraction: 0.9999,
        micro_batch_size: 2,
        target_batch_size: 6,
        shuffle: true,
        drop_last: false,
        num_workers: 2,
      },
      optimizer: { grad_clip: 0.5 },
      checkpoint: { every_steps: 3 },
      evaluation: { every_steps: 5, max_batches: 1 },
      scheduler: { warmup_steps: 4 },
    }),
  });

  /** Trains until `stopAt` and returns the losses by step. */
  async function trainUntil(outputDir: string, stopAt: number, losses: Map<number, number>) {
    const control = new AbortController();
    const events = recordEvents((event, { step, loss }) => {
      if (event !== "train_step") return;
      losses.set(step as number, loss as number);
      if (step === stopAt) control.abort("test");
    });
    const result = await trainFromConfig(config(outputDir), {
      resume: losses.size > 0,
      signal: control.signal,
      hooks: [events.hook],
    });
    return { result, epochs: events.of("data_epoch").length };
  }

  it("change neither losses nor files", async () => {
    const [whole, cut] = [temporaryFolder(), temporaryFolder()];
    const [expected, losses] = [new Map<number, number>(), new Map<number, number>()];
    const { epochs } = await trainUntil(whole, 0, expected);
    expect(epochs).toBeGreaterThanOrEqual(2);
    expect(expected.size).toBe(14);
    for (const stopAt of [4, 6, 11]) {
      const { result } = await trainUntil(cut, stopAt, losses);
      expect(result).toMatchObject({ steps: stopAt, stop: { kind: "stopped", cause: "test" } });
    }
    await trainUntil(cut, 0, losses);
    expect(losses).toEqual(expected);
    expect(await weightHashes(cut, 14)).toEqual(await weightHashes(whole, 14));
    const trainerOf = async (folder: string) => (await loadCheckpoint(folder)).content.trainer;
    expect(await trainerOf(cut)).toEqual(await trainerOf(whole));
  });

  it("that lose steps repeat them", async () => {
    const outputDir = temporaryFolder();
    const losses = new Map<number, number>();
    await trainUntil(outputDir, 8, losses);
    const first = new Map(losses);
    // As after a kill: the checkpoint of step 8 was never written.
    const old = temporaryFolder();
    await cp(join(outputDir, "checkpoints/step-000000000006"), join(old, "checkpoints/step-000000000006"), {
      recursive: true,
    });
    const { result } = await trainUntil(old, 8, losses);
    expect(result.steps).toBe(8);
    expect(losses).toEqual(first);
  });
});

describe("what changed since", () => {
  it("is told, and the configuration wins", async () => {
    const outputDir = temporaryFolder();
    await trainFromConfig(tinyConfig(outputDir));
    const config = tinyConfig(outputDir, {
      run: { max_steps: 6 },
      optimizer: { lr: 2e-3, weight_decay: 0, grad_clip: 1 },
      data: { target_batch_size: 4, shuffle: true },
      scheduler: { name: "constant", warmup_steps: 0 },
    });
    const { steps, resume, result } = await resumed(config);
    expect(resume?.notes).toEqual([
      expect.stringMatching(/^data\.order\.seed: saved nothing, now 5; the configuration's value is used/),
      expect.stringMatching(/^data\.order\.shuffle: saved false, now true; /),
      expect.stringMatching(/^data\.target_batch_size: saved 2, now 4; /),
      expect.stringMatching(/^optimizer\.grad_clip: saved null, now 1; /),
      expect.stringMatching(/^optimizer\.lr: saved 0\.01, now 0\.002; /),
      expect.stringMatching(/^optimizer\.schedule\.name: saved "cosine", now "constant"; /),
      expect.stringMatching(/^optimizer\.schedule\.warmup_steps: saved 1, now 0; /),
      expect.stringMatching(/^optimizer\.weight_decay: saved 0\.1, now 0; /),
    ]);
    expect(steps.map(({ lr, samples, micro_batches }) => [lr, samples, micro_batches])).toEqual([
      [2e-3, 12, 4],
      [2e-3, 16, 4],
    ]);
    expect(result).toMatchObject({ steps: 6, samples: 16 });
  });

  it("moves the horizon of the schedule with the end of the run", async () => {
    const outputDir = temporaryFolder();
    await trainFromConfig(tinyConfig(outputDir));
    const { steps } = await resumed(tinyConfig(outputDir, { run: { max_steps: 8 } }));
    const cosine = (done: number) => 0.1 + 0.45 * (1 + Math.cos((Math.PI * done) / 7));
    expect(steps.map(({ lr }) => lr / 1e-2)).toEqual(
      [4, 5, 6, 7].map((done) => expect.closeTo(cosine(done), 12)),
    );
  });

  it("is refused by name for the model, before anything is touched", async () => {
    const outputDir = temporaryFolder();
    await trainFromConfig(tinyConfig(outputDir));
    const before = await folderState(join(outputDir, "checkpoints"));
    const error = await resumed(
      tinyConfig(outputDir, { run: { max_steps: 6 }, model: { d_model: 12, rope_base: 500 } }),
    ).catch((e: unknown) => e);
    expect(error).toBeInstanceOf(CheckpointError);
    expect(error).toMatchObject({ code: "checkpoint.model_differs", exitCode: 4 });
    const { details, message } = error as CheckpointError;
    expect((details.differences as { field: string }[]).map(({ field }) => field)).toEqual([
      "d_model",
      "parameters",
      "rope_base",
    ]);
    expect(message).toContain("d_model: saved 8, now 12");
    expect(message).toContain("rope_base: saved 10000, now 500");
    expect(await folderState(join(outputDir, "checkpoints"))).toEqual(before);
    expect((await resumed(tinyConfig(outputDir, { run: { max_steps: 5 } }))).result.steps).toBe(5);
  });

  it("warns of another thread count, since bits may differ", async () => {
    const outputDir = temporaryFolder();
    await trainFromConfig(tinyConfig(outputDir));
    const same = await resumed(tinyConfig(outputDir, { run: { max_steps: 5 } }));
    expect(same.resume?.notes).toEqual([]);
    const other = await resumed(tinyConfig(outputDir, { run: { max_steps: 6, threads: 2 } }));
    expect(other.resume?.notes).toEqual([
      "the thread count changed from 1 to 2: results may differ in their last bits from those of an uninterrupted run",
    ]);
  });

  it("is refused for data that no longer has the place, with nothing changed", async () => {
    const folder = temporaryFolder();
    const dataset = new FormulaDataset(20);
    const first = await localTrainer({ model: smallTransformer(), dataset, folder, maxSteps: 4 });
    await first.trainer.fit();
    const shorter = new FormulaDataset(6);
    const second = await localTrainer({ model: smallTransformer({}, 2), dataset: shorter, folder });
    const before = await second.engine.readParameters();
    await expect(second.trainer.resume(await loadCheckpoint(folder))).rejects.toThrow(DataError);
    expect(await second.engine.readParameters()).toEqual(before);
    expect([second.trainer.step, second.loader.position()]).toEqual([0, { epoch: 0, position: 0 }]);
    await first.close();
    await second.close();
  });
});

describe("where to resume from", () => {
  it("must exist for `true`; `auto` starts fresh with a warning, as checkpoint.resume does", async () => {
    const outputDir = temporaryFolder();
    const error = await resumed(tinyConfig(outputDir)).catch((e: unknown) => e);
    expect(error).toBeInstanceOf(CheckpointError);
    expect(error).toMatchObject({ code: "checkpoint.nothing_to_resume", exitCode: 4 });
    const auto = await resumed(tinyConfig(outputDir, { run: { max_steps: 1 } }), { resume: "auto" });
    expect(auto.events.of("warning")).toMatchObject([
      { message: "resume requested but no local checkpoint was found: starting fresh" },
    ]);
    const events = recordEvents();
    const config = tinyConfig(outputDir, { run: { max_steps: 2 }, checkpoint: { resume: true } });
    expect(await trainFromConfig(config, { hooks: [events.hook] })).toMatchObject({ steps: 2 });
    expect(events.of("resume")).toMatchObject([{ step: 1, epoch: 0, position: 2, skipped: [] }]);
    expect(events.of("warning")).toEqual([]);
  });

  it("can be a path, also of another run, which stays as it is", async () => {
    const [source, target] = [temporaryFolder(), temporaryFolder()];
    await trainFromConfig(tinyConfig(source));
    const before = await folderState(source);
    const path = join(source, "checkpoints/step-000000000002");
    const { result, resume, steps } = await resumed(tinyConfig(target, { run: { max_steps: 4 } }), {
      resume: { path },
    });
    expect([result.steps, resume?.step, resume?.path, steps.map(({ step }) => step)]).toEqual([
      4,
      2,
      path,
      [3, 4],
    ]);
    expect(await folderState(source)).toEqual(before);
    expect(await weightHashes(target, 4)).toEqual(await weightHashes(source, 4));
    const { info } = await loadCheckpoint(target);
    expect(info.manifest.parent).toMatchObject({ step: 2, name: "step-000000000002" });
  });

  it("keeps the run's id, and a fresh start takes a new one", async () => {
    const outputDir = temporaryFolder();
    const ids: string[] = [];
    for (const [resume, max_steps] of [
      [false, 2],
      [true, 4],
      [false, 1],
    ] as const) {
      const runtime = await buildRuntime(tinyConfig(outputDir, { run: { max_steps } }), { resume });
      ids.push(runtime.runId);
      await runtime.trainer.fit();
      await runtime.close();
    }
    expect([ids[1] === ids[0], ids[2] === ids[0]]).toEqual([true, false]);
    expect((await loadCheckpoint(outputDir)).info).toMatchObject({ step: 1, runId: ids[2] });
  });

  it("is a mistake where nothing is saved", async () => {
    const config = tinyConfig(temporaryFolder(), { checkpoint: { enabled: false } });
    await expect(resumed(config)).rejects.toThrow(ConfigError);
    const { result, events } = await resumed(config, { resume: "auto" });
    expect([result.steps, events.of("checkpoint")]).toEqual([4, []]);
  });
});
