// `npm run bench -- safetensors`: opening, reading every byte and saving one file, ours against Python's safetensors,
// in fresh processes that take turns. The file's pages are in memory before anything is timed.

import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { saveSafetensorsFile, type TensorStream } from "../src/formats/safetensors/index.node.js";
import { plainEnv } from "./peers.js";
import { findPython } from "./python.js";
import { type Spread, spread } from "./stats.js";

export interface SafetensorsOptions {
  readonly rounds: number;
  readonly sizeMb: number;
  readonly threads: number;
  /** Where the files go; a temporary folder by default. */
  readonly folder: string | undefined;
  readonly log: (text: string) => void;
}

/** What one process of either side prints: milliseconds of each repetition. */
interface Measured {
  readonly first_open_ms: readonly number[];
  readonly open_ms: readonly number[];
  readonly read_ms: readonly number[];
  readonly load_ms: readonly number[];
  readonly save_ms: readonly number[];
  readonly save_fsync_ms: readonly number[];
  readonly rss_mb: number;
  readonly sum: number;
  readonly versions: Readonly<Record<string, string>>;
}

const figures = ["first_open_ms", "open_ms", "read_ms", "load_ms", "save_ms", "save_fsync_ms"] as const;
const titles: Readonly<Record<(typeof figures)[number], string>> = {
  first_open_ms: "open and list, the first time in a process",
  open_ms: "open and list all tensors, later times",
  read_ms: "read every byte (a sum per tensor)",
  load_ms: "load all tensors, then a sum per tensor",
  save_ms: "save, without fsync",
  save_fsync_ms: "save, with fsync",
};

export interface SafetensorsResult {
  readonly bench: "safetensors";
  readonly processor: string | undefined;
  readonly node: string;
  readonly file: { readonly sizeBytes: number; readonly tensors: number };
  readonly rounds: number;
  readonly skipped: readonly string[];
  readonly engines: Readonly<Record<string, Readonly<Record<string, Spread>>>>;
  readonly versions: Readonly<Record<string, string>>;
}

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

export async function benchSafetensors(options: SafetensorsOptions): Promise<SafetensorsResult> {
  const { rounds, threads, log } = options;
  const python = findPython();
  const folder = mkdtempSync(join(options.folder ?? tmpdir(), "speedtronic-bench-"));
  try {
    const file = join(folder, "model.safetensors");
    const { sizeBytes, tensors } = await writeModel(file, options.sizeMb * 1e6);
    const args = [file, folder, String(threads)];
    const peers: [string, string[]][] = [
      ["speedtronic", [process.execPath, here("safetensors-io.mjs"), ...args]],
    ];
    if (python) peers.push(["python", [python, here("../interop/bench/safetensors_io.py"), ...args]]);
    const runs = new Map<string, Measured[]>(peers.map(([name]) => [name, []]));
    for (let round = 0; round < rounds; round++) {
      // The other side first in every second round.
      for (const [name, command] of round % 2 === 0 ? peers : [...peers].reverse()) {
        readFileSync(file);
        const measured = runPeer(name, command);
        runs.get(name)!.push(measured);
        log(`round ${round + 1}/${rounds}: ${name} read ${Math.min(...measured.read_ms).toFixed(0)} ms\n`);
      }
    }
    requireSameSums(runs);
    const engines = Object.fromEntries([...runs].map(([name, list]) => [name, summary(list)]));
    const versions = Object.assign({}, ...[...runs.values()].map((list) => list[0]?.versions ?? {}));
    return {
      bench: "safetensors",
      processor: cpus()[0]?.model.trim(),
      node: process.versions.node,
      file: { sizeBytes, tensors },
      rounds,
      skipped: python
        ? []
        : ["python: its environment is not there (make it with bash interop/setup-env.sh)"],
      engines,
      versions,
    };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** A decoder's tensors, as many layers as it takes to fill `wantedBytes`. */
async function writeModel(path: string, wantedBytes: number) {
  const [width, inner] = [1024, 2816];
  const layer: [string, number[]][] = [
    ...["q", "k", "v", "o"].map((name): [string, number[]] => [`attn.${name}.weight`, [width, width]]),
    ["mlp.gate.weight", [inner, width]],
    ["mlp.up.weight", [inner, width]],
    ["mlp.down.weight", [width, inner]],
    ["norm1.weight", [width]],
    ["norm2.weight", [width]],
  ];
  const elements = (shape: readonly number[]) => shape.reduce((product, size) => product * size, 1);
  const layerBytes = 4 * layer.reduce((sum, [, shape]) => sum + elements(shape), 0);
  const values = Float32Array.from({ length: inner * width }, (_, i) => Math.sin(i * 0.37) / 50);
  const tensors: TensorStream[] = [];
  for (let index = 0; index < Math.max(1, Math.round(wantedBytes / layerBytes)); index++)
    for (const [name, shape] of layer)
      tensors.push({
        name: `layers.${index}.${name}`,
        dtype: "F32",
        shape,
        data: values.subarray(0, elements(shape)),
      });
  return { sizeBytes: await saveSafetensorsFile(path, tensors, { format: "pt" }), tensors: tensors.length };
}

function runPeer(name: string, [program, ...args]: string[]): Measured {
  const done = spawnSync(program!, args, { env: plainEnv(), encoding: "utf8" });
  const line = done.stdout
    ?.trim()
    .split("\n")
    .findLast((text) => text.startsWith("{"));
  if (done.status !== 0 || !line)
    throw new Error(`${name} failed (${done.status}): ${done.stderr?.slice(-2000)}`);
  return JSON.parse(line) as Measured;
}

/** Both sides must have looked at the same numbers. */
function requireSameSums(runs: ReadonlyMap<string, readonly Measured[]>): void {
  const sums = [...runs.values()].flatMap((list) => list.map(({ sum }) => sum));
  const [first = 0] = sums;
  if (sums.every((sum) => Math.abs(sum - first) <= 1e-3 * Math.max(1, Math.abs(first)))) return;
  throw new Error(`the sides do not agree about the sum of the file: ${sums.join(", ")}`);
}

function summary(list: readonly Measured[]): Readonly<Record<string, Spread>> {
  return Object.fromEntries([
    ...figures.map((figure) => [figure, spread(list.flatMap((measured) => measured[figure]))]),
    ["rss_mb", spread(list.map(({ rss_mb }) => rss_mb))],
  ]);
}

export function formatSafetensors(result: SafetensorsResult): string {
  const { file, engines, rounds, skipped } = result;
  const names = Object.keys(engines);
  const versions = Object.entries(result.versions).map(([name, version]) => `${name} ${version}`);
  const lines = [
    `${result.processor}, ${versions.join(", ")}; a file of ${(file.sizeBytes / 1e9).toFixed(2)} GB with ${file.tensors} float32 tensors, pages in memory; ms, median (min–max) of ${rounds} rounds`,
    "",
    `| | ${names.join(" | ")} | ${names.length > 1 ? "python / ours" : ""} |`,
    `|---|${names.map(() => "---").join("|")}|---|`,
  ];
  for (const figure of figures) {
    const cells = names.map((name) => {
      const { median, min, max } = engines[name]![figure]!;
      return `${number(median)} (${number(min)}–${number(max)})`;
    });
    const ratio =
      names.length > 1
        ? (engines.python![figure]!.median / engines.speedtronic![figure]!.median).toFixed(2)
        : "";
    lines.push(`| ${titles[figure]} | ${cells.join(" | ")} | ${ratio} |`);
  }
  lines.push(
    `| peak memory, MB | ${names.map((name) => number(engines[name]!.rss_mb!.median)).join(" | ")} | |`,
  );
  for (const reason of skipped) lines.push("", `skipped ${reason}`);
  return lines.join("\n");
}

const number = (value: number) => (value < 10 ? value.toFixed(2) : value.toFixed(0));
