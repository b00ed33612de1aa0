// What a process holds after 1,000 steps is what it held after 100: on the onnx backend, in the worker, with
// dropout, shuffling, prefetching and periodic checkpoints; with one shape of batches, and with more shapes than
// compiled graphs are kept for, so that sessions come and go all the time.
//
// V8 itself goes on growing long after 100 such short steps: its young generation and optimised code are held back
// by flags, and every thread collects garbage often. What noise is left is a few MB of resident memory.

import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { temporaryFolder } from "./helpers.js";

interface Sample {
  readonly rss: number;
  readonly arrayBuffers: number;
  readonly heapUsed: number;
  readonly descriptors: number;
  readonly resources: Readonly<Record<string, number>>;
}

const MiB = 2 ** 20;
const here = import.meta.dirname;

async function measure(shapes: "demo" | "one" | "many") {
  const flags = [
    "--expose-gc",
    "--no-opt",
    "--max-semi-space-size=1",
    "--require",
    join(here, "collect-often.cjs"),
  ];
  const program = [
    "--import",
    "tsx",
    join(here, "resources-child.ts"),
    temporaryFolder(),
    "110",
    "1000",
    shapes,
  ];
  const { stdout } = await promisify(execFile)(process.execPath, [...flags, ...program], {
    maxBuffer: 16 * MiB,
  });
  const { early, late, after } = JSON.parse(stdout) as Record<"early" | "late", Sample[]> & {
    after: string[];
  };
  const median = (samples: readonly Sample[], of: (sample: Sample) => number) =>
    samples.map(of).sort((a, b) => a - b)[samples.length >> 1]!;
  const compare = (of: (sample: Sample) => number) => ({ early: median(early, of), late: median(late, of) });
  return {
    rss: compare((s) => s.rss),
    arrayBuffers: compare((s) => s.arrayBuffers),
    heapUsed: compare((s) => s.heapUsed),
    descriptors: compare((s) => s.descriptors),
    resources: compare((s) => Object.values(s.resources).reduce((sum, n) => sum + n, 0)),
    after,
  };
}

/** Within 1 % or `floorBytes`, whichever is more. */
function expectFlat(
  what: string,
  { early, late }: { early: number; late: number },
  floorBytes: number,
): void {
  const allowed = early + Math.max(0.01 * early, floorBytes);
  expect(late, `${what}: ${early} after 100 steps, ${late} after 1,000`).toBeLessThanOrEqual(allowed);
}

describe.each([
  // The demo's model: the noise is small beside what it holds, so 1 % is 1 %.
  { shapes: "demo", rssFloor: 0 },
  // 900 steps of one shape: measured +2 MB of 140 MB.
  { shapes: "one", rssFloor: 5 * MiB },
  // Some 1,800 sessions are made and released between the two: a lost one costs 100 KB and more. Measured +7 MB.
  { shapes: "many", rssFloor: 16 * MiB },
] as const)("after 1,000 steps with $shapes shape(s)", ({ shapes, rssFloor }) => {
  it("a run holds what it held after 100, and nothing at its end", async () => {
    const measured = await measure(shapes);
    console.log(shapes, JSON.stringify(measured));
    expectFlat("resident memory", measured.rss, rssFloor);
    expectFlat("array buffers", measured.arrayBuffers, 64 * 1024);
    expectFlat("JavaScript heap", measured.heapUsed, MiB);
    expect(measured.descriptors.late).toBeLessThanOrEqual(measured.descriptors.early);
    expect(measured.resources.late).toBeLessThanOrEqual(measured.resources.early);
    // The pipes are those of the standard streams.
    expect(measured.after.filter((type) => type !== "PipeWrap")).toEqual([]);
  });
});
