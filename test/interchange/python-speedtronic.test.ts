// Checkpoints that the real Python package wrote (interop/make_python_checkpoints.py): weights, moments and counters
// come over, and training goes on with the losses that Python had.

import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type ConfigInput, trainFromConfig } from "speedtronic";
import { CheckpointStore } from "speedtronic/checkpoint";
import { describe, expect, onTestFinished, test } from "vitest";

import { bytesSource } from "../../src/formats/safetensors/index.js";
import { openTorchFile, readTorchFile, type TorchFile } from "../../src/formats/torch/index.node.js";
import {
  importPythonCheckpoint,
  importPythonOuterState,
  isPythonCheckpoint,
  type PythonImport,
} from "../../src/interchange/python-speedtronic/index.js";
import type { TensorData } from "../../src/tensor/dtype.js";
import { asm, pickle, torchZip } from "../formats/torch-craft.js";

interface Kind {
  step: number;
  samples: number;
  tokens: number;
  parameters: string[];
  state: Record<string, Record<string, number>>;
  lr: number;
  losses: number[];
  weights: Record<string, number>;
}

const folder = join(import.meta.dirname, "../fixtures/torch/python-speedtronic");
const expected = JSON.parse(readFileSync(join(folder, "expected.json"), "utf8")) as Record<string, Kind> & {
  outer_state: {
    outer_step: number;
    processed_deltas: [string, number, number][];
    global_state: Record<string, number[]>;
    momentum: Record<string, number[]>;
  };
};

async function open(name: string): Promise<TorchFile> {
  const file = await openTorchFile(join(folder, name));
  onTestFinished(() => file.close());
  return file;
}

const sumOf = ({ data }: TensorData) =>
  (data as Float32Array).reduce((sum, value) => sum + Math.abs(value), 0);

/** The moments by parameter as sums, for a comparison with Python's own. */
function stateSums(optimizer: ReadonlyMap<string, TensorData>): Record<string, Record<string, number>> {
  const sums: Record<string, Record<string, number>> = {};
  for (const [key, tensor] of optimizer) {
    const [, name, slot] = /^(.+)\.([^.]+)$/.exec(key)!;
    sums[name!] = { ...sums[name!], [slot!]: sumOf(tensor) };
  }
  return sums;
}

function expectCloseSums(found: Record<string, Record<string, number>>, wanted: Kind["state"]): void {
  expect(Object.keys(found).sort()).toEqual(Object.keys(wanted).sort());
  for (const [name, slots] of Object.entries(wanted)) {
    const { step: _, ...sums } = slots;
    expect(Object.keys(found[name]!).sort()).toEqual(Object.keys(sums).sort());
    for (const [slot, sum] of Object.entries(sums))
      expect(found[name]![slot]! / (sum || 1), `${name}.${slot}`).toBeCloseTo(sum === 0 ? 0 : 1, 5);
  }
}

/** Saves the import as a checkpoint of ours and trains on from it. */
async function trainOn(
  { content }: PythonImport,
  steps: number,
): Promise<{ losses: number[]; notes: string[] }> {
  const output = await mkdtemp(join(tmpdir(), "speedtronic-python-"));
  onTestFinished(() => rm(output, { recursive: true, force: true }));
  const store = new CheckpointStore({
    directory: join(output, "imported"),
    keepLast: null,
    runId: "imported",
  });
  const { path } = await store.save(content);
  const config = content.config as ConfigInput;
  const losses: number[] = [];
  let notes: string[] = [];
  await trainFromConfig(
    {
      ...config,
      run: { ...config.run, output_dir: output, max_steps: content.trainer.step + steps, threads: 1 },
      logging: { level: "ERROR" },
    },
    {
      resume: { path },
      hooks: [
        (event: string, payload: Readonly<Record<string, unknown>>) => {
          if (event === "train_step") losses.push(payload.loss as number);
          if (event === "resume") notes = payload.notes as string[];
        },
      ],
    },
  );
  return { losses, notes };
}

describe.each(["marked", "default", "muon"])("a checkpoint of Python Speedtronic (%s)", (kind) => {
  const python = expected[kind]!;

  test("comes over whole", async () => {
    const file = await open(`${kind}.pt`);
    expect(isPythonCheckpoint(file)).toBe(true);
    const { content, report } = await importPythonCheckpoint(file);
    expect(Object.keys(python.weights)).toEqual([...content.model.keys()]);
    for (const [name, sum] of Object.entries(python.weights))
      expect(sumOf(content.model.get(name)!) / sum, name).toBeCloseTo(1, 5);
    expectCloseSums(stateSums(content.optimizer), python.state);
    const { step, samples, tokens, counters, schedule } = content.trainer;
    expect({ step, samples, tokens }).toEqual({
      step: python.step,
      samples: python.samples,
      tokens: python.tokens,
    });
    expect(counters).toEqual({ microbatches: 2 * step, optimizerUpdates: step, skippedUpdates: 0 });
    expect(schedule).toMatchObject({ lr: python.lr, name: "cosine", factor: python.lr / 0.02, joint: null });
    expect(content.config).toMatchObject({
      run: { name: `python-${kind}`, seed: 7 },
      model: { n_head: 2, n_kv_head: 1, d_ff: 48, tie_weights: kind !== "default" },
      optimizer: { name: kind === "muon" ? "muon" : "adamw", lr: 0.02, grad_clip: 1 },
      compat: { decay_all_tensors: true, schedule_endpoints: true },
    });
    expect(content.trainer.extra).toMatchObject({
      scheduler: { last_epoch: step, base_lrs: expect.any(Array) },
    });
    expect(report.leftOut).toEqual(["rng: random generators of Python, numpy and PyTorch are not used here"]);
    const missing = python.parameters.filter((name) => !(name in python.state));
    expect(report.missingMoments).toEqual(missing);
    expect(missing).toHaveLength(kind === "default" ? 14 : 0);
  });
});

test("tied weights come over as one tensor", async () => {
  const { content } = await importPythonCheckpoint(await open("marked.pt"));
  expect(content.model.get("lm_head.weight")).toBe(content.model.get("transformer.wte.weight"));
  const untied = await importPythonCheckpoint(await open("default.pt"));
  expect(untied.content.model.get("lm_head.weight")).not.toBe(
    untied.content.model.get("transformer.wte.weight"),
  );
});

test("with every module marked for AdamW the next five losses are Python's", async () => {
  const { losses } = await trainOn(await importPythonCheckpoint(await open("marked.pt")), 5);
  expect(losses).toHaveLength(5);
  for (const [i, loss] of losses.entries())
    expect(Math.abs(loss - expected.marked!.losses[i]!), `loss ${i + 1}`).toBeLessThan(1e-5);
});

test("of a default checkpoint the next loss is Python's, and the moments that it lacks are named", async () => {
  const imported = await importPythonCheckpoint(await open("default.pt"));
  expect(imported.report.missingMoments).toContain("transformer.h.0.attn.q_proj.weight");
  const { losses, notes } = await trainOn(imported, 1);
  expect(Math.abs(losses[0]! - expected.default!.losses[0]!)).toBeLessThan(1e-5);
  expect(notes).toEqual([expect.stringMatching(/no optimiser state for these.*attn\.q_proj\.weight/)]);
});

test("a resume tells nothing that comes from fields which the file lacks, and tells what was changed", async () => {
  const imported = await importPythonCheckpoint(await open("marked.pt"));
  expect((await trainOn(imported, 1)).notes).toEqual([]);
  const { scheduler, optimizer } = imported.content.config as Required<ConfigInput>;
  const config = {
    ...imported.content.config,
    optimizer: { ...(optimizer as object), lr: 0.5 },
    scheduler: { ...(scheduler as object), min_lr_ratio: 0.25 },
  };
  const { notes } = await trainOn({ ...imported, content: { ...imported.content, config } }, 1);
  expect(notes).toEqual([
    "optimizer.lr: saved 0.02, now 0.5; the configuration's value is used from here on",
    expect.stringMatching(/^optimizer\.schedule\.min_lr_ratio: saved .+, now 0\.25;/),
  ]);
});

test("a Muon checkpoint is kept whole, and training goes on from it", async () => {
  const imported = await importPythonCheckpoint(await open("muon.pt"));
  const slots = new Set([...imported.content.optimizer.keys()].map((key) => key.split(".").at(-1)));
  expect(slots).toEqual(new Set(["exp_avg", "exp_avg_sq", "momentum_buffer"]));
  const { losses } = await trainOn(imported, 3);
  const wanted = expected.muon!.losses.slice(0, 3);
  expect(losses).toHaveLength(3);
  for (const [i, loss] of losses.entries()) expect(Math.abs(loss - wanted[i]!)).toBeLessThan(1e-5);
});

test("the caller may choose rules, leave the optimizer out, or name its order", async () => {
  const file = await open("marked.pt");
  const plain = await importPythonCheckpoint(file, { compat: "none", withoutOptimizer: true });
  expect(plain.content.config).toMatchObject({ compat: { decay_all_tensors: false } });
  expect(plain.content.optimizer.size).toBe(0);
  expect(plain.content.trainer.counters.optimizerUpdates).toBe(0);
  expect(plain.report.missingMoments).toEqual(expected.marked!.parameters);

  const order = expected.marked!.parameters;
  const named = await importPythonCheckpoint(file, { optimizerOrder: order });
  expectCloseSums(stateSums(named.content.optimizer), expected.marked!.state);
  const swapped = [order[1]!, order[0]!, ...order.slice(2)];
  await expect(importPythonCheckpoint(file, { optimizerOrder: swapped })).rejects.toMatchObject({
    code: "python_checkpoint.optimizer",
    message: expect.stringMatching(
      /state 0 has shape \[32, 16\], parameter "transformer\.h\.0\.ln1\.weight" has \[16\]/,
    ),
  });
  await expect(importPythonCheckpoint(file, { optimizerOrder: ["nope"] })).rejects.toThrow(
    /no parameter "nope"/,
  );
});

test("the outer state of a master comes over", async () => {
  const outer = await importPythonOuterState(await open("outer_state.pt"));
  const wanted = expected.outer_state;
  expect(outer.outerStep).toBe(wanted.outer_step);
  expect(outer.processedDeltas.map((d) => [d.node, d.localStep, d.baseOuterStep])).toEqual(
    wanted.processed_deltas,
  );
  const values = (tensors: ReadonlyMap<string, TensorData>) =>
    Object.fromEntries([...tensors].map(([name, { data }]) => [name, [...data]]));
  expect(values(outer.globalState)).toEqual(
    Object.fromEntries(Object.entries(wanted.global_state).map(([k, v]) => [k, v.map(Math.fround)])),
  );
  expect(values(outer.momentum)).toEqual(wanted.momentum);
  expect(outer.globalState.get("steps")).toMatchObject({ dtype: "int32", shape: [] });
});

test("files of another kind are refused by name", async () => {
  const other = await readTorchFile(bytesSource(torchZip(pickle(asm.emptyDict())), "other.pt"));
  expect(isPythonCheckpoint(other)).toBe(false);
  await expect(importPythonCheckpoint(other)).rejects.toMatchObject({
    code: "python_checkpoint.not_a_checkpoint",
    exitCode: 4,
    message: expect.stringMatching(/^other\.pt: no checkpoint of Python Speedtronic/),
  });
  await expect(importPythonOuterState(other)).rejects.toMatchObject({
    code: "python_checkpoint.not_an_outer_state",
  });
  const entry = (key: string, value: number[]) => [...asm.text(key), ...value, ...asm.setItem()];
  const noConfig = pickle(
    asm.emptyDict(),
    entry("model", asm.emptyDict()),
    entry("optimizer", asm.none()),
    entry("step", asm.int(-1)),
    entry("config", [...asm.emptyDict(), ...entry("modle", asm.emptyDict())]),
  );
  await expect(
    importPythonCheckpoint(await readTorchFile(bytesSource(torchZip(noConfig), "odd.pt"))),
  ).rejects.toThrow(/odd\.pt: its configuration is not understood: .*modle/s);
});
