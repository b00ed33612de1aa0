// A fresh run that begins with given weights: where they may come from, what must fit, and what is told and kept.

import { join } from "node:path";

import { type ConfigInput, type RuntimeOptions, trainFromConfig } from "speedtronic";
import { loadCheckpoint, saveWeightsFolder } from "speedtronic/checkpoint";
import { saveSafetensors } from "speedtronic/safetensors";
import { expect, it } from "vitest";

import { recordEvents, temporaryFolder, tinyConfig } from "./helpers.js";

const source = temporaryFolder();
const sourceRun = trainFromConfig(tinyConfig(source, { run: { max_steps: 3 } }));

/** A run of one step at a rate of (nearly) nothing: its weights are those that it began with. */
const still = (outputDir: string): ConfigInput =>
  tinyConfig(outputDir, { run: { max_steps: 1, seed: 99 }, optimizer: { lr: 1e-30, weight_decay: 0 } });

async function begunWith(options: RuntimeOptions) {
  await sourceRun;
  const outputDir = temporaryFolder();
  const events = recordEvents();
  await trainFromConfig(still(outputDir), { ...options, hooks: [events.hook] });
  const { content } = await loadCheckpoint(outputDir);
  return { content, report: events.of("weights_loaded")[0], outputDir };
}

it("begins with the weights of a run, of a weights folder and of a file, and with nothing else of theirs", async () => {
  await sourceRun;
  const { content } = await loadCheckpoint(source);
  const folder = join(temporaryFolder(), "weights");
  await saveWeightsFolder(folder, content);
  const file = join(temporaryFolder(), "model.safetensors");
  const wrapped = [...content.model].map(
    ([name, { shape, data }]) => [`module.${name}`, { dtype: "F32" as const, shape, data }] as const,
  );
  await saveSafetensors(new Map(wrapped), file);
  for (const path of [source, folder, file]) {
    const begun = await begunWith({ initialWeights: { path } });
    for (const [name, { data }] of content.model)
      expect([name, begun.content.model.get(name)!.data]).toEqual([name, data]);
    expect(begun.content.trainer).toMatchObject({ step: 1, samples: 2 });
    expect(begun.report).toMatchObject({
      missing: [],
      unexpected: [],
      mismatched: [],
      initial: [],
      differences: [],
    });
    expect(begun.report!.renamed.length).toBe(path === file ? wrapped.length : 0);
    // Kept with the run, also by what continues it.
    expect(begun.content.trainer.extra).toMatchObject({ initialWeights: { path: begun.report!.path } });
  }
});

it("refuses what does not fit, allows by pattern, and keeps the report through a resume", async () => {
  await sourceRun;
  const { model } = (await loadCheckpoint(source)).content;
  const path = join(temporaryFolder(), "other.safetensors");
  const tensors = [...model].map(([name, { shape, data }]) => {
    const other = name === "transformer.ln_f.weight" ? "final.gamma" : name;
    return [other, { dtype: "F32" as const, shape, data }] as const;
  });
  await saveSafetensors(new Map(tensors), path);
  await expect(begunWith({ initialWeights: { path } })).rejects.toMatchObject({
    code: "checkpoint.does_not_fit",
    details: { path, missing: ["transformer.ln_f.weight"], unexpected: ["final.gamma"] },
  });
  const rules = [{ exact: "final.gamma", to: "transformer.ln_f.weight" }];
  expect((await begunWith({ initialWeights: { path, rules } })).report).toMatchObject({ initial: [] });
  const policy = { allowMissing: ["transformer.ln_f.*"], allowUnexpected: ["*"] };
  const { outputDir, report } = await begunWith({ initialWeights: { path, ...policy } });
  expect(report).toMatchObject({
    initial: ["transformer.ln_f.weight"],
    report: expect.stringContaining("left at their initial values (1):\n  transformer.ln_f.weight"),
  });
  const events = recordEvents();
  const longer = { ...still(outputDir), run: { ...still(outputDir).run, max_steps: 2 } };
  await trainFromConfig(longer, { resume: true, initialWeights: { path: "gone" }, hooks: [events.hook] });
  expect(events.of("weights_loaded")).toEqual([]);
  const { extra } = (await loadCheckpoint(outputDir)).content.trainer;
  expect(extra).toMatchObject({ initialWeights: { initial: ["transformer.ln_f.weight"] } });
});

it("names what cannot be opened", async () => {
  await expect(begunWith({ initialWeights: { path: "/nowhere/at/all" } })).rejects.toMatchObject({
    code: "checkpoint.not_found",
    exitCode: 4,
  });
  const empty = begunWith({ initialWeights: { path: temporaryFolder() } });
  await expect(empty).rejects.toMatchObject({ code: "checkpoint.not_found" });
});
