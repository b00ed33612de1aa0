// A run at the demo's shapes that is stopped three times, by real signals to a real process, once in the middle
// of a save, ends with the very files and losses of a run that nobody stopped.

import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { loadCheckpoint } from "speedtronic/checkpoint";
import { beforeAll, describe, expect, it } from "vitest";
import { startTraining, unfinishedSaves } from "./cli-process.js";
import { bookFile, temporaryFolder, weightHashes } from "./helpers.js";

const maxSteps = 60;
const blockSize = 128;
/** 326 samples an epoch, the last one short: 41 microbatches, so that updates reach over the end of an epoch. */
const textBytes = 325 * blockSize + 51;

const work = temporaryFolder();
const folderOf = (run: string) => join(work, run);
const metricsOf = (run: string) => join(work, `${run}.jsonl`);

async function writeConfig(run: string): Promise<string> {
  const path = join(work, `${run}.json`);
  const config = {
    run: { name: "exact", seed: 7, max_steps: maxSteps, output_dir: folderOf(run), threads: 2 },
    model: {
      vocab_size: 256,
      max_seq_len: blockSize,
      n_layer: 4,
      n_head: 6,
      d_model: 192,
      d_ff: 768,
      dropout: 0.1,
    },
    data: {
      text_path: join(work, "text.txt"),
      micro_batch_size: 8,
      target_batch_size: 16,
      shuffle: true,
      drop_last: false,
      num_workers: 2,
    },
    optimizer: { lr: 3e-3, grad_clip: 1 },
    scheduler: { warmup_steps: 10 },
    checkpoint: { every_steps: 3, keep_last: 2 },
    logging: { json_file: metricsOf(run) },
  };
  await writeFile(path, JSON.stringify(config));
  return path;
}

/** Loss and gradient norm of each step; where a step was repeated, the later line counts. */
async function metrics(run: string): Promise<Map<number, [loss: number, gradNorm: number]>> {
  const lines = (await readFile(metricsOf(run), "utf8")).trimEnd().split("\n");
  const records = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  const steps = records.filter(({ event }) => event === "train_step");
  return new Map(steps.map((r) => [r.step as number, [r.loss as number, r.grad_norm as number]]));
}

const lastStep = async (run: string) => (await loadCheckpoint(folderOf(run))).info.step;

describe("stopping and resuming", () => {
  beforeAll(async () => {
    const book = await readFile(bookFile);
    await writeFile(join(work, "text.txt"), book.subarray(100_000, 100_000 + textBytes));
  });

  it("changes no bit of weights, moments and losses", async () => {
    const whole = startTraining(["--config", await writeConfig("whole")]);
    expect([await whole.ended, whole.output()]).toEqual([
      0,
      expect.stringContaining(`completed steps=${maxSteps} `),
    ]);

    const config = await writeConfig("cut");
    const resume = ["--config", config, "--resume"];
    const checkpoints = join(folderOf("cut"), "checkpoints");

    // 1. SIGTERM: the step is finished and saved.
    const first = startTraining(["--config", config]);
    await first.reached(8);
    first.kill("SIGTERM");
    expect([await first.ended, first.output()]).toEqual([
      143,
      expect.stringContaining("stopped by SIGTERM steps="),
    ]);
    const afterFirst = await lastStep("cut");
    expect(afterFirst).toBeGreaterThanOrEqual(8);
    expect(afterFirst).toBeLessThan(maxSteps);

    // 2. kill -9 somewhere: what came after the last save is lost.
    const second = startTraining(resume);
    await second.reached(afterFirst + 11);
    second.kill("SIGKILL");
    expect(await second.ended).toBe("SIGKILL");
    const afterSecond = await lastStep("cut");
    expect(afterSecond).toBeGreaterThan(afterFirst);
    expect(afterSecond).toBeLessThan(maxSteps);

    // 3. kill -9 while a checkpoint is half written; tried again until one is left behind.
    let hits = 0;
    for (let attempt = 0; hits === 0 && attempt < 10; attempt++) {
      const from = await lastStep("cut");
      const third = startTraining(resume);
      await third.reached(from + 1);
      while (unfinishedSaves(checkpoints).length === 0) {
        if (third.process.exitCode !== null) throw new Error(`no save was seen:\n${third.output()}`);
        await wait(0);
      }
      third.kill("SIGKILL");
      expect(await third.ended).toBe("SIGKILL");
      hits = unfinishedSaves(checkpoints).length;
      expect(await lastStep("cut")).toBeLessThan(maxSteps);
    }
    expect(hits).toBe(1);

    const last = startTraining(resume);
    expect([await last.ended, last.output()]).toEqual([
      0,
      expect.stringContaining(`completed steps=${maxSteps} `),
    ]);
    expect(unfinishedSaves(checkpoints)).toEqual([]);

    const [expected, actual] = [await metrics("whole"), await metrics("cut")];
    expect([...expected.keys()]).toEqual(Array.from({ length: maxSteps }, (_, i) => i + 1));
    expect(new Map([...actual].sort(([a], [b]) => a - b))).toEqual(expected);
    expect(await weightHashes(folderOf("cut"), maxSteps)).toEqual(
      await weightHashes(folderOf("whole"), maxSteps),
    );
    const states = await Promise.all(
      ["whole", "cut"].map(async (run) => (await loadCheckpoint(folderOf(run))).content),
    );
    expect(states[1]!.trainer).toEqual(states[0]!.trainer);
    expect(states[0]!.trainer.data.epoch).toBe(2);
  });

  it("on another number of threads says that bits may differ", async () => {
    const more = startTraining([
      ...["--config", join(work, "whole.json"), "--resume"],
      ...[
        "--max-steps",
        String(maxSteps + 1),
        "--set",
        "run.threads=1",
        "--set",
        `logging.json_file=${metricsOf("more")}`,
      ],
    ]);
    expect([await more.ended, more.output()]).toEqual([
      0,
      expect.stringContaining(`completed steps=${maxSteps + 1} `),
    ]);
    const note =
      "the thread count changed from 2 to 1: results may differ in their last bits from those of an uninterrupted run";
    expect(more.output()).toContain(note);
    expect(await readFile(metricsOf("more"), "utf8")).toContain(note);
  });
});
