// What a worker's metrics file says about its lives: which local steps each of them made, which are in which delta, and
// what a restart took back. A step that was made again after a restart is another step than the first one.

import { readFileSync } from "node:fs";
import { expect } from "vitest";

/** All steps after `from`, up to `to`. */
export interface StepRange {
  readonly from: number;
  readonly to: number;
}

interface Queued extends StepRange {
  readonly path: string;
}

export interface Life {
  /** The step that it went on from; 0: a fresh start. */
  readonly resumedAt: number;
  readonly checkpoints: readonly number[];
  readonly queued: readonly Queued[];
  readonly uploaded: readonly string[];
  readonly lastStep: number;
}

/** Lives that got as far as beginning to train, in order. */
export function readLives(metricsFile: string): readonly Life[] {
  const lives: Record<string, unknown>[][] = [];
  for (const line of readFileSync(metricsFile, "utf8").split("\n")) {
    if (!line.endsWith("}")) continue;
    const event = JSON.parse(line) as Record<string, unknown>;
    if (event.event === "train_start") lives.push([]);
    lives.at(-1)?.push(event);
  }
  return lives.map((events) => {
    const of = (name: string) => events.filter(({ event }) => event === name);
    const resumedAt = Number(events[0]!.start_step);
    return {
      resumedAt,
      checkpoints: of("checkpoint").map(({ step }) => Number(step)),
      queued: of("delta_upload_queued").map(({ path, step, steps }) => ({
        path: String(path),
        from: Number(step) - Number(steps),
        to: Number(step),
      })),
      uploaded: of("delta_uploaded").map(({ path }) => String(path)),
      lastStep: Math.max(resumedAt, ...of("train_step").map(({ step }) => Number(step))),
    };
  });
}

/**
 * No life goes back behind a checkpoint; what was acknowledged counts; no step is in two deltas of `counted`; each step of
 * the last life's past is in one of them.
 */
export function checkSteps(lives: readonly Life[], counted: ReadonlyMap<string, StepRange>): void {
  let saved = 0;
  for (const { resumedAt, checkpoints } of lives) {
    expect(resumedAt).toBeGreaterThanOrEqual(saved);
    saved = Math.max(saved, ...checkpoints);
  }
  const takers = takersOf(lives);
  expect([...counted.keys()].filter((path) => !takers.has(path))).toEqual([]);
  expect(lives.flatMap(({ uploaded }) => uploaded).filter((path) => !counted.has(path))).toEqual([]);
  const holders = new Map<string, string>();
  for (const [path, { number, from, to }] of takers) {
    if (!counted.has(path)) continue;
    expect({ path, ...counted.get(path) }).toEqual({ path, from, to });
    for (let step = from + 1; step <= to; step++) {
      const made = `step ${step} of life ${makerOf(lives, number, step)}`;
      expect(`${made}: ${holders.get(made)}`).toBe(`${made}: undefined`);
      holders.set(made, `${path} (life ${number})`);
    }
  }
  const last = lives.length - 1;
  const missing: string[] = [];
  for (let step = 1; step <= (lives[last]?.lastStep ?? 0); step++) {
    const made = `step ${step} of life ${makerOf(lives, last, step)}`;
    if (!holders.has(made)) missing.push(made);
  }
  expect(missing).toEqual([]);
}

/**
 * The life that took each delta. One that was killed before it could write down that it took a delta has not sent it: the
 * next life takes another one of the same name.
 */
function takersOf(lives: readonly Life[]): ReadonlyMap<string, Queued & { readonly number: number }> {
  const takers = new Map<string, Queued & { readonly number: number }>();
  const acknowledged = new Set<string>();
  for (const [number, { queued, uploaded }] of lives.entries()) {
    for (const delta of queued) {
      expect(acknowledged).not.toContain(delta.path);
      takers.set(delta.path, { ...delta, number });
    }
    for (const path of uploaded) acknowledged.add(path);
  }
  return takers;
}

/** Lives that took a delta which a later one had to send. */
export function cutOffUploads(lives: readonly Life[]): number {
  return lives.filter(({ queued, uploaded }) => queued.some(({ path }) => !uploaded.includes(path))).length;
}

/** The life that made this step in the past of life `number`: its checkpoint is by the latest life that began before it. */
function makerOf(lives: readonly Life[], number: number, step: number): number {
  let maker = number;
  while (maker >= 0 && lives[maker]!.resumedAt >= step) {
    const { resumedAt } = lives[maker]!;
    do maker -= 1;
    while (maker >= 0 && lives[maker]!.resumedAt >= resumedAt);
  }
  return maker;
}
