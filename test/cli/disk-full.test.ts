// A run on a disk that is really full: a tiny file system in memory. Needs the right to mount one; skipped elsewhere.

import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it, onTestFinished, type TestContext } from "vitest";
import { loadCheckpoint } from "../../src/checkpoint/index.js";
import { cli, sampleText, scratchFolder, writeTinyConfig } from "./harness.js";

const folder = scratchFolder();
const config = writeTinyConfig(folder, sampleText);

/** Holds three checkpoints of the tiny model, which need about 300 kB each. */
function tinyDisk(context: TestContext): string {
  const disk = mkdtempSync(join(folder, "disk-"));
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], { stdio: "pipe" });
  } catch (error) {
    context.skip(
      `a file system in memory cannot be mounted here: ${(error as Error).message.split("\n").at(-1)}`,
    );
  }
  onTestFinished(() => void execFileSync("umount", [disk]));
  return disk;
}

/** A run of six steps that saves every second one; from the first save on the disk is full. */
function trainOn(disk: string, metrics: string, onOut: (text: string) => void = () => {}) {
  const filler = join(disk, "filler");
  return cli(
    ["train", "-c", config, "-o", join(disk, "run"), "--set", `logging.json_file=${join(folder, metrics)}`],
    {
      onOut: (text) => {
        if (/^step 2 {2}checkpoint /m.test(text)) writeFileSync(filler, new Uint8Array(600 << 10));
        onOut(text);
      },
    },
  );
}

function failures(metrics: string): object[] {
  const lines = readFileSync(join(folder, metrics), "utf8").trimEnd().split("\n");
  const events = lines.map((line) => JSON.parse(line) as { event: string; step: number; reason: string });
  return events
    .filter(({ event }) => event === "checkpoint_failed")
    .map(({ step, reason }) => ({ step, reason }));
}

it("at a periodic save warns, keeps the generation before, and goes on", async (context) => {
  const disk = tinyDisk(context);
  const place = join(disk, "run/checkpoints/step-00000000000");
  let kept: number | undefined;
  const { code, out, err } = await trainOn(disk, "periodic.jsonl", (text) => {
    if (!text.includes("checkpoint of step 4 failed")) return;
    kept = readFileSync(`${place}2/model.safetensors`).length;
    rmSync(join(disk, "filler"));
  });
  expect({ code, err }).toEqual({ code: 0, err: "" });
  expect(out).toMatch(
    new RegExp(`^warning: checkpoint of step 4 failed: .* the disk has \\d+ free; .*; kept ${place}2$`, "m"),
  );
  expect(out).toMatch(/\ncompleted steps=6 samples=24 tokens=768 loss=\d\S+\n$/);
  expect(kept).toBeGreaterThan(90_000);
  expect(failures("periodic.jsonl")).toEqual([{ step: 4, reason: "periodic" }]);
  expect((await loadCheckpoint(join(disk, "run"))).info.step).toBe(6);
});

it("at the final save ends with exit code 4, the generation before whole", async (context) => {
  const disk = tinyDisk(context);
  const { code, out, err } = await trainOn(disk, "final.jsonl");
  expect(code).toBe(4);
  expect(err).toMatch(
    /^speedtronic: error: could not save the checkpoint .*step-000000000006: .* the disk has \d+ free/,
  );
  expect(out).not.toContain("completed");
  expect(failures("final.jsonl")).toEqual([
    { step: 4, reason: "periodic" },
    { step: 6, reason: "final" },
  ]);
  expect((await loadCheckpoint(join(disk, "run"))).info.step).toBe(2);
});
