// Fine-tuning by adapters from end to end: on a model of our own and on one from a Hugging Face folder. Checkpoints
// hold the adapters alone, a resume repeats every bit, and the merged model is an ordinary one.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type ConfigInput, resolveConfig, trainFromConfig } from "speedtronic";
import { loadCheckpoint, loadModel } from "speedtronic/checkpoint";
import { exportHuggingFace, importHuggingFace, saveImportedModel } from "speedtronic/interchange";
import { initialize, type LanguageModel, ReferenceTransformer } from "speedtronic/nn";
import { diagnose, loadTrainedModel, mergeAdapters, planRun } from "speedtronic/train";
import { beforeAll, describe, expect, it } from "vitest";
import { currentEnvironment } from "../../src/train/environment.node.js";
import { cli } from "../cli/harness.js";
import { logitsOf } from "../interchange/huggingface-helpers.js";
import { largestDifference } from "../nn/helpers.js";
import { FormulaDataset, temporaryFolder, tinyConfig } from "./helpers.js";

const ids = [[1, 4, 2, 6, 0, 3]];
const lora = { rank: 2, alpha: 8, dropout: 0.1 };
const model = { name: "llama", n_kv_head: 1, extra: { qkv_bias: true } };

/** A run that is trained as a whole: what adapters are trained on. */
async function trainedRun(section: ConfigInput["model"] = {}): Promise<string> {
  const output = temporaryFolder();
  await trainFromConfig(tinyConfig(output, { model: section ?? {} }));
  return output;
}

const tuning = (output: string, base: string | null, steps: number, section: ConfigInput["model"] = {}) => ({
  ...tinyConfig(output, { run: { max_steps: steps }, model: section ?? {}, scheduler: { max_steps: 4 } }),
  lora: { ...lora, base },
});

describe("a run with adapters", () => {
  let base = "";
  beforeAll(async () => {
    base = await trainedRun();
  });

  it("saves its adapters and nothing else", async () => {
    const output = temporaryFolder();
    await trainFromConfig(tuning(output, base, 4));
    const { content } = await loadCheckpoint(output);
    const names = [...content.model.keys()];
    expect(names).toHaveLength(8);
    expect(names.every((name) => /attn\.\w+\.lora\.[AB]$/.test(name))).toBe(true);
    expect([...content.optimizer.keys()].every((name) => name.includes(".lora."))).toBe(true);
    expect(
      [...content.model].some(([name, { data }]) => name.endsWith("B") && data.some((x) => x !== 0)),
    ).toBe(true);
    // Dropout is off outside training, so what was loaded computes as what was trained.
    const before = (await loadTrainedModel(base)).model as LanguageModel;
    const { model: tuned } = await loadTrainedModel(output);
    expect(largestDifference(flat(tuned as LanguageModel), flat(before))).toBeGreaterThan(1e-4);
  });

  it("is resumed bit for bit", async () => {
    const [whole, halves] = [temporaryFolder(), temporaryFolder()];
    await trainFromConfig(tuning(whole, base, 4));
    await trainFromConfig(tuning(halves, base, 2));
    await trainFromConfig(tuning(halves, base, 4), { resume: true });
    const [a, b] = [await loadCheckpoint(whole), await loadCheckpoint(halves)];
    expect(b.content.model).toEqual(a.content.model);
    expect(b.content.optimizer).toEqual(a.content.optimizer);
  });

  it("refuses to go on, and to be loaded, over other weights", async () => {
    const [output, other] = [temporaryFolder(), temporaryFolder()];
    await trainFromConfig(tuning(output, base, 2));
    await trainFromConfig(tinyConfig(other, { run: { seed: 6 } }));
    await expect(trainFromConfig(tuning(output, other, 4), { resume: true })).rejects.toMatchObject({
      code: "checkpoint.model_differs",
      message: expect.stringContaining("lora.base_sha256"),
    });
    await expect(loadTrainedModel(output, { base: other })).rejects.toMatchObject({
      code: "lora.other_base",
    });
  });

  it("becomes an ordinary model with the same logits, from the command line too", async () => {
    const [output, merged] = [temporaryFolder(), join(temporaryFolder(), "merged")];
    await trainFromConfig(tuning(output, base, 4));
    const { code, out, err } = await cli(["ckpt", "merge-lora", output, "-o", merged]);
    expect({ code, err }).toEqual({ code: 0, err: "" });
    expect(out).toContain("4 adapters merged");
    const { model: adapted } = await loadTrainedModel(output);
    const { model: whole, config } = await loadTrainedModel(merged);
    expect(config.lora.rank).toBeNull();
    expect([...whole.stateDict().keys()].some((name) => name.includes("lora"))).toBe(false);
    expect(largestDifference(flat(whole as LanguageModel), flat(adapted as LanguageModel))).toBeLessThan(
      1e-5,
    );
    // And it is the start of further training.
    const further = await trainFromConfig(tinyConfig(temporaryFolder()), {
      initialWeights: { path: merged },
    });
    expect(further.steps).toBe(4);
  });

  it.each([
    ["no base", {}, {}, "config.unsupported", /lora.base is null: adapters to random weights learn nothing/],
    ["a base that is missing", { base: "nowhere" }, {}, "checkpoint.not_found", /nowhere does not exist/],
    ["layers that are missing", { targets: ["c_attn"] }, {}, "lora.no_such_layer", /"c_attn"/],
    [
      "another meaning of the weights",
      {},
      { rope_base: 500 },
      "lora.other_model",
      /rope_base: saved 10000, now 500/,
    ],
  ])("refuses %s", async (what, change, section, code, message) => {
    const config = tuning(temporaryFolder(), what === "no base" ? null : base, 1, section);
    await expect(trainFromConfig({ ...config, lora: { ...config.lora, ...change } })).rejects.toMatchObject({
      code,
      message: expect.stringMatching(message),
    });
  });

  it("is planned by what is trained, and its base is looked at by the doctor", async () => {
    const { plan } = planRun(resolveConfig(tuning(temporaryFolder(), base, 4)));
    // Four layers of 8 by 8 with two matrices of rank 2 each.
    expect(plan.trainable).toBe(4 * 2 * 2 * 8);
    expect(plan.disk.perCheckpoint).toBe(3 * 4 * plan.trainable);
    const check = async (from: string) => {
      const { findings } = await diagnose(resolveConfig(tuning(temporaryFolder(), from, 4)), {
        env: {},
        probes: false,
      });
      return findings.filter(({ severity }) => severity === "problem").map(({ what }) => what);
    };
    expect(await check(base)).toEqual([]);
    expect(await check("nowhere")).toEqual([expect.stringContaining("nowhere does not exist")]);
  });

  it("refuses initial weights beside its base, and merging where there is nothing to merge", async () => {
    const config = tuning(temporaryFolder(), base, 1);
    await expect(trainFromConfig(config, { initialWeights: { path: base } })).rejects.toMatchObject({
      code: "lora.initial_weights",
    });
    await expect(mergeAdapters(base, join(temporaryFolder(), "x"))).rejects.toMatchObject({
      code: "lora.no_adapters",
    });
  });

  it("adapts a model that a program hands over, whose weights are the base", async () => {
    const build = () => {
      const own = new ReferenceTransformer({
        vocabSize: 16,
        blockSize: 8,
        nLayer: 1,
        nHead: 2,
        dModel: 8,
        dFf: 12,
      });
      initialize(own, 11);
      return own;
    };
    const run = async (output: string, steps: number, resume = false) =>
      trainFromConfig(tuning(output, null, steps), {
        model: build(),
        dataset: new FormulaDataset(12),
        resume,
      });
    const [whole, halves] = [temporaryFolder(), temporaryFolder()];
    await run(whole, 4);
    await run(halves, 2);
    await run(halves, 4, true);
    const [a, b] = [await loadModel(whole), await loadModel(halves)];
    expect([...a.content.model.keys()].every((name) => name.includes(".lora."))).toBe(true);
    expect(b.content.model).toEqual(a.content.model);
    await expect(loadTrainedModel(whole)).rejects.toMatchObject({ code: "lora.no_base" });
  });
});

describe("an imported model", () => {
  it("is adapted, merged, and exported with the same logits", async () => {
    const scratch = temporaryFolder();
    const [folder, base, tuned, merged, exported] = ["hf", "base", "tuned", "merged", "out"].map((name) =>
      join(scratch, name),
    ) as [string, string, string, string, string];
    await exportHuggingFace(await trainedRun(model), folder);
    const imported = await importHuggingFace(folder);
    await saveImportedModel(imported, base, { environment: currentEnvironment(1, undefined) });
    await trainFromConfig({
      ...tuning(tuned, base, 4),
      model: imported.config.model as ConfigInput["model"] & object,
      lora: { ...lora, base, targets: ["*self_attn*", "*down_proj"] },
    });
    await expect(exportHuggingFace(tuned, exported)).rejects.toMatchObject({ code: "huggingface.adapters" });
    await mergeAdapters(tuned, merged);
    await exportHuggingFace(merged, exported);
    const { model: back } = await importHuggingFace(exported);
    const { model: adapted } = await loadTrainedModel(tuned);
    const logits = flat(adapted as LanguageModel);
    expect(largestDifference(flat(back as LanguageModel), logits)).toBeLessThan(1e-5);
    expect(largestDifference(flat(imported.model as LanguageModel), logits)).toBeGreaterThan(1e-4);
    expect(JSON.parse(readFileSync(join(exported, "config.json"), "utf8"))).toMatchObject({
      model_type: expect.any(String),
    });
  });
});

function flat(of: LanguageModel): number[] {
  return logitsOf(of, ids).flat(2);
}
