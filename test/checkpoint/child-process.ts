// Starting and watching `child.ts`, and what must hold after it was killed.

import { type ChildProcess, spawn } from "node:child_process";
import { cp, mkdir, readdir } from "node:fs/promises";
import { join } from "node:path";

import { expect } from "vitest";

import { CheckpointStore } from "../../src/checkpoint/index.js";
import { comparable, stateAt } from "./fixtures.js";

export interface Child {
  readonly process: ChildProcess;
  /** All lines printed so far. */
  lines(): string[];
  waitForLine(prefix: string): Promise<string>;
  /** Signal or exit code. */
  readonly ended: Promise<NodeJS.Signals | number | null>;
}

export function startChild(directory: string, steps: number, killAt = 0, size = 24): Child {
  const program = join(import.meta.dirname, "child.ts");
  const args = ["--import", "tsx", program, directory, String(steps), String(killAt), String(size)];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  let text = "";
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
    text += chunk;
  });
  const lines = () => text.split("\n").slice(0, -1);
  const ended = new Promise<NodeJS.Signals | number | null>((resolve) => {
    child.once("close", (code, signal) => resolve(signal ?? code));
  });
  return {
    process: child,
    lines,
    ended,
    waitForLine: (prefix) =>
      new Promise((resolve, reject) => {
        const look = () => {
          const line = lines().find((candidate) => candidate.startsWith(prefix));
          if (line !== undefined) resolve(line);
        };
        child.stdout.on("data", look);
        child.once("close", () =>
          reject(new Error(`the child ended before "${prefix}": ${lines().join(" | ")}`)),
        );
        look();
      }),
  };
}

/** Step of the last save that the child reported; 0 if none. */
export function lastSaved(child: Child): number {
  return Math.max(0, ...child.lines().map((line) => Number(/^saved (\d+)$/.exec(line)?.[1] ?? 0)));
}

/** After a kill: nothing reported as saved is lost, nothing is damaged, and the run goes on as if nothing had been. */
export async function expectResumable(directory: string, atLeastStep: number, size = 24): Promise<number> {
  const store = new CheckpointStore({ directory, keepLast: 2, runId: "after" });
  const loaded = await store.loadNewestGood();
  expect(loaded?.skipped ?? []).toEqual([]);
  const step = loaded?.info.step ?? 0;
  expect(step).toBeGreaterThanOrEqual(atLeastStep);
  if (loaded !== undefined) {
    expect(comparable(loaded.content)).toEqual(comparable(stateAt(step, size)));
    store.continueFrom(loaded.info);
  }
  const lock = await store.lock();
  await store.sweep();
  await store.save(stateAt(step + 1, size));
  await lock.release();
  expect((await store.list()).map((info) => info.step)).toEqual(step === 0 ? [1] : [step, step + 1]);
  const hidden = (await readdir(directory)).filter((name) => name.startsWith("."));
  expect(hidden).toEqual([]);
  return step + 1;
}

/** Runs the child on a copy of `start` and lets it kill itself before its `killAt`-th change on disk. */
export async function crashAt(
  start: string,
  directory: string,
  steps: number,
  killAt: number,
): Promise<void> {
  await mkdir(directory);
  await cp(start, directory, { recursive: true });
  const child = startChild(directory, steps, killAt);
  expect([killAt, await child.ended]).toEqual([killAt, "SIGKILL"]);
  const startStep = (await readdir(start)).length === 0 ? 0 : 5;
  await expectResumable(directory, Math.max(lastSaved(child), startStep));
}

/** How many changes on disk the child makes from start to end. */
export async function countOperations(start: string, directory: string, steps: number): Promise<number> {
  await cp(start, directory, { recursive: true });
  const child = startChild(directory, steps);
  expect(await child.ended).toBe(0);
  return Number((await child.waitForLine("operations")).split(" ")[1]);
}
