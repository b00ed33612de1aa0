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

  const cosine = (done: number, end: number) => 0.1 + 0.45 * (1 + Math.cos((Math.PI * done) / (end - 1)));
  const rates = ({ steps }: Awaited<ReturnType<typeof resumed>>) => steps.map(({ lr }) => lr / 1e-2);
  const close = (factors: readonly number[]) => factors.map((factor) => expect.closeTo(factor, 12));

  it("moves the end of the decay with the end of the run, without a jump", async () => {
    const outputDir = temporaryFolder();
    await trainFromConfig(tinyConfig(outputDir, { scheduler: { max_steps: 6 } }));
    const longer = await resumed(tinyConfig(outputDir, { run: { max_steps: 10 } }));
    const scale = (cosine(4, 6) - 0.1) / (cosine(4, 10) - 0.1);
    const curve = (done: number) => 0.1 + (cosine(done, 10) - 0.1) * scale;
    expect(rates(longer)).toEqual(close([4, 5, 6, 7, 8, 9].map(curve)));
    expect(rates(longer)[0]).toBeCloseTo(cosine(4, 6), 12);
    expect(longer.resume?.notes).toEqual([
      expect.stringMatching(/^optimizer\.schedule\.max_steps: saved 6, now null; /),
      "the learning rate decays until step 10 instead of 6: it goes on from 0.1859 of its peak",
    ]);
  });

  it("goes on in the same curve, to the bit, when it is resumed once more", async () => {
    const [once, twice] = [temporaryFolder(), temporaryFolder()];
    const run = (folder: string, max_steps: number, scheduler = {}) =>
      trainFromConfig(tinyConfig(folder, { run: { max_steps }, scheduler }), { resume: "auto" });
    const moved = { max_steps: 10 };
    for (const folder of [once, twice]) await run(folder, 4, { max_steps: 6 });
    await run(twice, 7, moved);
    for (const folder of [once, twice]) await run(folder, 10, moved);
    expect(await weightHashes(twice, 10)).toEqual(await weightHashes(once, 10));
  });

  it("keeps the floor of a run that had ended, or leaves it if that is wanted", async () => {
    const folders = [temporaryFolder(), temporaryFolder(), temporaryFolder()] as const;
    for (const folder of folders) await trainFromConfig(tinyConfig(folder));
    const prolonged = (folder: string, scheduler = {}) =>
      resumed(tinyConfig(folder, { run: { max_steps: 8 }, scheduler }));
    const kept = await prolonged(folders[0]);
    expect(rates(kept)).toEqual(close([0.1, 0.1, 0.1, 0.1]));
    expect(kept.resume?.notes).toEqual([
      expect.stringMatching(
        /^the learning rate decays until step 8 instead of 4: it is at its floor of 0\.1 /,
      ),
    ]);
    const raised = await prolonged(folders[1], { moved_end: "rewarm", warmup_steps: 2 });
    const warm2 = (done: number) => 0.1 + 0.45 * (1 + Math.cos((Math.PI * (done - 1)) / 6));
    expect(rates(raised)).toEqual(close([0.1, (0.1 + warm2(5)) / 2, warm2(6), 0.1]));
    const jumped = await prolonged(folders[2], { moved_end: "jump" });
    expect(rates(jumped)).toEqual(close([4, 5, 6, 7].map((done) => cosine(done, 8))));
    expect(jumped.resume?.notes).toEqual([
      expect.stringMatching(/it changes from 0\.1 to 0\.4499 of its peak$/),
    ]);
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
