// `npm run bench -- checkpoint`: how long training waits for a save, and saving and loading a whole training state,
// ours against torch.save and torch.load of the same tensors.

import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { plainEnv } from "./peers.js";
import { findPython } from "./python.js";
import { sizes } from "./sizes.js";
import { type Spread, spread } from "./stats.js";

export interface CheckpointOptions {
  readonly sizeNames: readonly string[];
  readonly rounds: number;
  readonly threads: number;
  readonly folder: string | undefined;
  readonly log: (text: string) => void;
}

interface Ours {
  readonly path: string;
  readonly size_bytes: number;
  readonly stall_ms: readonly number[];
  readonly beside_ms: readonly number[];
  readonly snapshot_ms: readonly number[];
  readonly copy_ms: readonly number[];
  readonly save_ms: readonly number[];
  readonly load_ms: readonly number[];
}

interface Torch {
  readonly save_ms: readonly number[];
  readonly save_no_fsync_ms: readonly number[];
  readonly load_ms: readonly number[];
  readonly versions: { readonly torch: string };
}

interface SizeResult {
  readonly size: string;
  readonly sizeBytes: number;
  /** Training waits for a periodic save. */
  readonly stallMs: Spread;
  /** Copying parameters and moments once, into memory that is there. */
  readonly copyMs: Spread;
  readonly stallOverCopy: number;
  /** The copy that training waits for, with no save and no update beside it: what the stall is without other load. */
  readonly snapshotMs: Spread;
  /** Of the fastest of each, which other programs disturb least. */
  readonly snapshotOverCopy: number;
  /** A save beside training, from the snapshot to the moved pointer. */
  readonly besideMs: Spread;
  readonly saveMs: Spread;
  readonly loadMs: Spread;
  readonly torch?: {
    readonly version: string;
    readonly saveMs: Spread;
    readonly saveNoFsyncMs: Spread;
    readonly loadMs: Spread;
  };
}

export interface CheckpointResult {
  readonly bench: "checkpoint";
  readonly processor: string | undefined;
  readonly node: string;
  readonly rounds: number;
  readonly skipped: readonly string[];
  readonly results: readonly SizeResult[];
}

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

export function benchCheckpoint(options: CheckpointOptions): CheckpointResult {
  const python = findPython();
  return {
    bench: "checkpoint",
    processor: cpus()[0]?.model.trim(),
    node: process.versions.node,
    rounds: options.rounds,
    skipped: python ? [] : ["torch: its environment is not there (make it with bash interop/setup-env.sh)"],
    results: options.sizeNames.map((name) => measureSize(name, python, options)),
  };
}

function measureSize(
  name: string,
  python: string | undefined,
  { rounds, threads, folder, log }: CheckpointOptions,
): SizeResult {
  const [ours, torch]: [Ours[], Torch[]] = [[], []];
  for (let round = 0; round < rounds; round++) {
    const place = mkdtempSync(join(folder ?? tmpdir(), "speedtronic-bench-"));
    try {
      const args = [here("checkpoint-io.mjs"), JSON.stringify(sizes[name]), String(threads), place];
      const measured = run<Ours>("speedtronic", [process.execPath, ...args]);
      ours.push(measured);
      if (python) {
        const script = here("../interop/bench/torch_checkpoint.py");
        torch.push(run<Torch>("torch", [python, script, measured.path, place]));
      }
      log(`${name} round ${round + 1}/${rounds}: save ${Math.min(...measured.save_ms).toFixed(0)} ms\n`);
    } finally {
      rmSync(place, { recursive: true, force: true });
    }
  }
  const all = (figure: "beside_ms" | "snapshot_ms" | "copy_ms" | "save_ms" | "load_ms") =>
    spread(ours.flatMap((measured) => measured[figure]));
  // The first save of a run makes the buffers that all later ones use.
  const stallMs = spread(ours.flatMap(({ stall_ms }) => stall_ms.slice(1)));
  const copyMs = all("copy_ms");
  const snapshotMs = all("snapshot_ms");
  return {
    size: name,
    sizeBytes: ours[0]!.size_bytes,
    stallMs,
    copyMs,
    stallOverCopy: stallMs.median / copyMs.median,
    snapshotMs,
    snapshotOverCopy: snapshotMs.min / copyMs.min,
    besideMs: all("beside_ms"),
    saveMs: all("save_ms"),
    loadMs: all("load_ms"),
    ...(torch.length === 0
      ? {}
      : {
          torch: {
            version: torch[0]!.versions.torch,
            saveMs: spread(torch.flatMap(({ save_ms }) => save_ms)),
            saveNoFsyncMs: spread(torch.flatMap(({ save_no_fsync_ms }) => save_no_fsync_ms)),
            loadMs: spread(torch.flatMap(({ load_ms }) => load_ms)),
          },
        }),
  };
}

function run<T>(name: string, [program, ...args]: string[]): T {
  const done = spawnSync(program!, args, { env: plainEnv(), encoding: "utf8" });
  const line = done.stdout
    ?.trim()
    .split("\n")
    .findLast((text) => text.startsWith("{"));
  if (done.status !== 0 || !line)
    throw new Error(`${name} failed (${done.status}): ${done.stderr?.slice(-2000)}`);
  return JSON.parse(line) as T;
}

export function formatCheckpoint(result: CheckpointResult): string {
  const lines = [
    `${result.processor}, Node ${result.node}; ms, median (min–max) of ${result.rounds} rounds. Ours syncs, hashes, reads back and verifies; torch.save is synced`,
  ];
  for (const size of result.results) {
    const { torch } = size;
    lines.push(
      "",
      `size ${size.size}: ${(size.sizeBytes / 1e6).toFixed(0)} MB${torch ? `  (torch ${torch.version})` : ""}`,
    );
    lines.push("| | ours | torch |", "|---|---|---|");
    lines.push(`| training waits for a save | ${cell(size.stallMs)} | |`);
    lines.push(`| one copy of parameters and moments | ${cell(size.copyMs)} | |`);
    lines.push(`| waits / one copy | ${size.stallOverCopy.toFixed(2)} | |`);
    lines.push(`| the same with no other work | ${cell(size.snapshotMs)} | |`);
    lines.push(`| the same / one copy, fastest of each | ${size.snapshotOverCopy.toFixed(2)} | |`);
    lines.push(`| a save beside training | ${cell(size.besideMs)} | |`);
    lines.push(`| save | ${cell(size.saveMs)} | ${torch ? cell(torch.saveMs) : ""} |`);
    if (torch) lines.push(`| save without fsync | | ${cell(torch.saveNoFsyncMs)} |`);
    lines.push(`| load | ${cell(size.loadMs)} | ${torch ? cell(torch.loadMs) : ""} |`);
  }
  for (const reason of result.skipped) lines.push("", `skipped ${reason}`);
  return lines.join("\n");
}

const cell = ({ median, min, max }: Spread) => `${median.toFixed(0)} (${min.toFixed(0)}–${max.toFixed(0)})`;
