// The program of a child process: takes the lock, resumes from the newest good checkpoint and saves further steps.
// It may kill itself right before its n-th change on disk. What it has achieved it prints, line by line, at once.
//
// Arguments: directory, steps to save (0: keep the lock and wait), n (0: never), values per tensor.

import { writeSync } from "node:fs";

import { CheckpointStore } from "../../src/checkpoint/index.js";
import { stateAt } from "./state.js";

const [directory = "", steps = "0", killAt = "0", size = "24"] = process.argv.slice(2);
let operations = 0;
const store = new CheckpointStore({
  directory,
  keepLast: 2,
  runId: `run-${process.pid}`,
  onFileOperation: () => {
    operations += 1;
    if (operations === Number(killAt)) process.kill(process.pid, "SIGKILL");
  },
});
const say = (line: string) => writeSync(1, `${line}\n`);

try {
  const lock = await store.lock();
  say("locked");
  await store.sweep();
  const loaded = await store.loadNewestGood();
  if (loaded !== undefined) store.continueFrom(loaded.info);
  const firstStep = (loaded?.info.step ?? 0) + 1;
  say("resumed");
  if (steps === "0") setInterval(() => undefined, 1000);
  for (let step = firstStep; step < firstStep + Number(steps); step += 1) {
    say(`saved ${(await store.save(stateAt(step, Number(size)))).step}`);
  }
  if (steps !== "0") await lock.release();
  say(`operations ${operations}`);
} catch (error) {
  say(`error ${(error as { code?: string }).code} ${(error as Error).message}`);
  process.exitCode = 4;
}
