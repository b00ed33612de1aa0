// TensorBoard's own reader on our event files: curves, texts, histograms, and a resumed run whose later file replaces
// the steps done again. Skipped where the environment has no package tensorboard.
// Needs SPEEDTRONIC_PYTHON, which run-tests.sh sets.

import { execFile, execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, expect, it } from "vitest";
import { encodeFileHead, encodeHistogram } from "../src/formats/tensorboard/index.js";
import { readRun } from "../src/observe/index.js";
import { trainFromConfig } from "../src/train/index.js";

interface Value {
  readonly step: number;
  readonly value: number;
}

interface Found {
  readonly scalars: Readonly<Record<string, readonly Value[]>>;
  readonly tensors: Readonly<
    Record<string, { readonly plugin: string; readonly values: readonly { step: number; value: string[] }[] }>
  >;
  readonly histograms: Readonly<
    Record<
      string,
      { step: number; num: number; min: number; max: number; limits: number[]; counts: number[] }
    >
  >;
}

const interpreter = process.env.SPEEDTRONIC_PYTHON;
if (!interpreter) throw new Error("SPEEDTRONIC_PYTHON is not set; run these tests with interop/run-tests.sh");

const scratch = mkdtempSync(join(tmpdir(), "speedtronic-tensorboard-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

function hasTensorBoard(): boolean {
  try {
    execFileSync(interpreter!, ["-c", "import tensorboard"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

async function read(folder: string): Promise<Found> {
  const script = join(import.meta.dirname, "tensorboard_read.py");
  const { stdout } = await promisify(execFile)(interpreter!, [script, folder], { maxBuffer: 2 ** 26 });
  return JSON.parse(stdout) as Found;
}

const present = hasTensorBoard();
const note = present ? "" : " (skipped: the package tensorboard is not in the Python environment)";

it.skipIf(!present)(`a run and its resume are one set of curves in TensorBoard${note}`, async () => {
  const folder = join(scratch, "run");
  const text = join(scratch, "text.txt");
  writeFileSync(text, "Call me Ishmael. ".repeat(60));
  const config = (max_steps: number) => ({
    run: { max_steps, output_dir: folder, threads: 1 },
    model: { vocab_size: 256, max_seq_len: 16, n_layer: 1, n_head: 2, d_model: 16, d_ff: 24 },
    data: { text_path: text, micro_batch_size: 2, validation_fraction: 0.2 },
    evaluation: { every_steps: 2 },
    sampling: { at_end: true, max_new_tokens: 8, prompt: "Call <b>me" },
    checkpoint: { every_steps: 2 },
    logging: { sinks: ["tensorboard" as const, "jsonl" as const], layer_norms: 2 },
  });
  await trainFromConfig(config(4));
  await trainFromConfig(config(7), { resume: true });

  const { scalars, tensors } = await read(join(folder, "tensorboard"));
  const run = await readRun(folder);
  for (const [tag, name] of [
    ["train/loss", "train/loss"],
    ["train/lr", "train/lr"],
    ["validation/loss", "validation/loss"],
  ] as const) {
    const ours = run.curve(name).map(({ step, value }) => ({ step, value: Math.fround(value) }));
    expect(scalars[tag], tag).toEqual(ours);
    expect(ours.length, tag).toBeGreaterThan(2);
  }
  expect(scalars["train/loss"]!.map(({ step }) => step)).toEqual([1, 2, 3, 4, 5, 6, 7]);
  const norms = Object.keys(scalars).filter((tag) => tag.startsWith("layer_norms/update/"));
  expect(norms.length).toBeGreaterThan(3);
  expect(tensors.sample?.plugin).toBe("text");
  expect(tensors.sample?.values.map(({ step }) => step)).toEqual([4, 7]);
  expect(tensors.sample?.values[0]?.value[0]).toContain("Call <b>me");
  expect(tensors.run_info?.values[0]?.value[0]).toContain('"n_layer": 1');
});

it.skipIf(!present)(`histograms are read with every value in its bucket${note}`, async () => {
  const folder = mkdtempSync(join(scratch, "histogram-"));
  const values = Array.from({ length: 1000 }, (_, i) => Math.sin(i) * 3);
  const place = { wallTime: 1_700_000_000, step: 5 };
  const file = Buffer.concat([encodeFileHead(1_700_000_000), encodeHistogram(place, "weights", values)]);
  writeFileSync(join(folder, "events.out.tfevents.1700000000.test"), file);
  const { weights } = (await read(folder)).histograms;
  expect(weights).toMatchObject({ step: 5, num: 1000, min: Math.min(...values), max: Math.max(...values) });
  expect(weights!.counts.reduce((a, b) => a + b)).toBe(1000);
  const below = weights!.limits.findIndex((limit) => limit >= 0);
  const negative = weights!.counts.slice(0, below + 1).reduce((a, b) => a + b);
  expect(negative).toBe(values.filter((value) => value <= 0).length);
});
