// `npm run bench -- startup`: from starting the process to the end of the first update of the demo model.

import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Spread, spread } from "./stats.js";

export interface StartupResult {
  readonly bench: "startup";
  readonly node: string;
  readonly rounds: number;
  /** Milliseconds from the start of the process to the event of step 1. */
  readonly firstStepMs: Spread;
}

export function benchStartup({
  rounds,
  log,
}: {
  rounds: number;
  log: (text: string) => void;
}): StartupResult {
  const root = fileURLToPath(new URL("..", import.meta.url));
  const times: number[] = [];
  for (let round = 0; round <= rounds; round++) {
    const folder = mkdtempSync(join(tmpdir(), "speedtronic-startup-"));
    const metrics = join(folder, "metrics.jsonl");
    const started = Date.now();
    const args = [
      "dist/cli/main.js",
      "train",
      "--config",
      "configs/demo.yaml",
      "--max-steps",
      "2",
      "--output-dir",
      folder,
    ];
    const sets = [
      `logging.json_file=${metrics}`,
      "checkpoint.enabled=false",
      "evaluation.max_batches=1",
      "sampling.at_end=false",
    ];
    const done = spawnSync(process.execPath, [...args, ...sets.flatMap((set) => ["--set", set])], {
      cwd: root,
      encoding: "utf8",
    });
    if (done.status !== 0) throw new Error(`training failed: ${done.stderr}`);
    const lines = readFileSync(metrics, "utf8")
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    const first = lines.find((line) => line.event === "train_step")!;
    const ms = Date.parse(first.time as string) - started;
    rmSync(folder, { recursive: true });
    // The first round warms the file cache.
    if (round > 0) times.push(ms);
    log(`round ${round}: ${ms} ms\n`);
  }
  return { bench: "startup", node: process.versions.node, rounds, firstStepMs: spread(times) };
}

export function formatStartup({ firstStepMs, rounds }: StartupResult): string {
  const { median, min, max } = firstStepMs;
  return `start to first step of the demo model: ${median} ms (${min}–${max}, ${rounds} rounds)`;
}
