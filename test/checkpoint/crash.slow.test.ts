// A real process that saves is killed before each single change on disk, and at random moments.

import { mkdir, readdir } from "node:fs/promises";
import { join } from "node:path";

import fc from "fast-check";
import { expect, it } from "vitest";

import { CheckpointStore } from "../../src/checkpoint/index.js";
import { countOperations, crashAt, expectResumable, lastSaved, startChild } from "./child-process.js";
import { stateAt, temporaryFolder } from "./fixtures.js";

it("killed before its n-th change on disk, for every n, in a used and in an empty directory", async () => {
  const folder = await temporaryFolder();
  for (const startSteps of [[4, 5], []]) {
    const start = join(folder, `start-${startSteps.length}`);
    await mkdir(start);
    const store = new CheckpointStore({ directory: start, keepLast: 2, runId: "run" });
    for (const step of startSteps) await store.save(stateAt(step));
    const operations = await countOperations(start, join(folder, `whole-${startSteps.length}`), 2);
    for (let killAt = 1; killAt <= operations; killAt += 1) {
      await crashAt(start, join(folder, `${startSteps.length}-at-${killAt}`), 2, killAt);
    }
  }
});

it("killed 100 times at random moments, one run goes on through all of them", async () => {
  const directory = join(await temporaryFolder(), "checkpoints");
  const size = 400_000;
  const delaysMs = fc.sample(fc.integer({ min: 0, max: 150 }), { seed: 1, numRuns: 100 });
  let step = 0;
  let interruptedSaves = 0;
  for (const delayMs of delaysMs) {
    const child = startChild(directory, 1_000_000, 0, size);
    await child.waitForLine("resumed");
    await new Promise((resolve) => setTimeout(resolve, delayMs));
    expect(child.process.kill("SIGKILL")).toBe(true);
    expect(await child.ended).toBe("SIGKILL");
    const saved = lastSaved(child);
    if ((await readdir(directory)).some((name) => name.startsWith(".tmp-"))) interruptedSaves += 1;
    step = await expectResumable(directory, Math.max(saved, step), size);
  }
  expect(step).toBeGreaterThan(100);
  // Proof that the kills hit saves and not the time between them. How many depends on the machine.
  expect(interruptedSaves).toBeGreaterThan(10);
});
