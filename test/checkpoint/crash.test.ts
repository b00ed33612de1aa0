// A real process that saves is killed in the middle of it; a sample of moments. All of them: crash.slow.test.ts.

import { mkdir } from "node:fs/promises";
import { join } from "node:path";

import { expect, it } from "vitest";

import { CheckpointStore } from "../../src/checkpoint/index.js";
import { countOperations, crashAt } from "./child-process.js";
import { stateAt, temporaryFolder } from "./fixtures.js";

it("a kill before any change on disk leaves a good checkpoint to resume from", async () => {
  const folder = await temporaryFolder();
  const start = join(folder, "start");
  const store = new CheckpointStore({ directory: start, keepLast: 2, runId: "run" });
  for (const step of [4, 5]) await store.save(stateAt(step));
  const operations = await countOperations(start, join(folder, "whole"), 1);
  expect(operations).toBeGreaterThan(40);
  const sample = [0.02, 0.2, 0.4, 0.6, 0.75, 0.85, 0.95, 1].map((part) => Math.ceil(part * operations));
  for (const killAt of sample) await crashAt(start, join(folder, `at-${killAt}`), 1, killAt);
});

it("a kill during the very first save leaves an empty directory or that checkpoint", async () => {
  const folder = await temporaryFolder();
  const start = join(folder, "start");
  await mkdir(start);
  for (const killAt of [12, 30]) await crashAt(start, join(folder, `at-${killAt}`), 1, killAt);
});
