// Ctrl-C, SIGTERM and a reader who goes away, against real processes: what is saved, what is said, how it ends.

import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it, vi } from "vitest";
import { loadCheckpoint } from "../../src/checkpoint/index.js";
import { type CliProcess, cli, sampleText, scratchFolder, startCli, writeTinyConfig } from "./harness.js";

const folder = scratchFolder();
const config = writeTinyConfig(folder, sampleText);
const output = (name: string): string => join(folder, name);
/** A run that goes on until a signal meets it. */
const start = (name: string): CliProcess =>
  startCli([
    ...["train", "--config", config, "-o", output(name), "--max-steps", "1000000"],
    ...["--set", "checkpoint.every_steps=1000000"],
  ]);

it.each([
  ["SIGINT", 130],
  ["SIGTERM", 143],
] as const)("%s saves, says so and exits with %i", async (signal, code) => {
  const run = start(signal);
  await run.waitFor("step 3/");
  expect(existsSync(output(`${signal}/checkpoints/latest.json`))).toBe(false);
  run.child.kill(signal);
  expect(await run.ended).toBe(code);
  expect(run.stderr()).toBe(
    `speedtronic: ${signal}: saving after this step; once more stops at once\n` +
      "speedtronic: the same command with --resume goes on from here\n",
  );
  const { step, samples, tokens } = (await loadCheckpoint(output(signal))).content.trainer;
  expect(run.stdout()).toMatch(
    new RegExp(`\\nstopped by ${signal} steps=${step} samples=${samples} tokens=${tokens} loss=\\d\\S+\\n$`),
  );
  const lastStep = run
    .stdout()
    .match(/^step \d+\/1000000/gm)!
    .at(-1);
  expect(lastStep).toBe(`step ${step}/1000000`);

  const target = String(step + 1);
  const resumed = await cli(["train", "-c", config, "-o", output(signal), "--max-steps", target, "--resume"]);
  expect(resumed.code).toBe(0);
  expect(resumed.out).toContain(`\ncompleted steps=${target} samples=${samples + 4} tokens=${tokens + 128} `);
});

it("a second signal ends the process at once, even inside a long step; one passed on twice counts once", async () => {
  const run = startCli([
    ...["train", "--config", config, "-o", output("twice"), "--max-steps", "2"],
    // One step of thousands of microbatches.
    ...["--set", "data.target_batch_size=40000"],
  ]);
  await run.waitFor("training steps 0 to 2");
  await sleep(1500);
  run.child.kill("SIGINT");
  await sleep(20);
  run.child.kill("SIGINT");
  await sleep(300);
  expect(run.child.exitCode ?? run.child.signalCode).toBe(null);
  run.child.kill("SIGINT");
  expect(await run.ended).toBe("SIGINT");
  expect(run.stdout()).not.toContain("step 1/2");
  expect(run.stderr()).toBe("speedtronic: SIGINT: saving after this step; once more stops at once\n");
  expect(readdirSync(output("twice/checkpoints")).filter((name) => !name.startsWith("."))).toEqual([]);
});

it("a reader who goes away ends the run with a checkpoint", async () => {
  const run = start("closed");
  await run.waitFor("step 3/");
  run.child.stdout!.destroy();
  expect(await run.ended).toBe(1);
  expect(run.stderr()).toBe(
    "speedtronic: nobody reads the output any more: saving after this step\n" +
      "speedtronic: the same command with --resume goes on from here\n",
  );
  expect((await loadCheckpoint(output("closed"))).content.trainer.step).toBeGreaterThanOrEqual(3);
});

it("Ctrl-C ends generation and keeps what was printed", async () => {
  await cli(["train", "-c", config, "-o", output("model"), "--max-steps", "2"]);
  const run = startCli(["generate", "-c", output("model"), "-p", "abc", "-n", "100000000"]);
  await vi.waitFor(() => expect(run.stdout()).toMatch(/^abc.{5}/s), { timeout: 30_000 });
  run.child.kill("SIGINT");
  expect(await run.ended).toBe(130);
  expect(run.stderr()).toBe("");
  expect(run.stdout()).toMatch(/^abc.{5,}\n$/s);
});
