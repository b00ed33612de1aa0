// Every optimizer trains, and a resume of it leaves no trace in the bits.

import { type ConfigInput, trainFromConfig } from "speedtronic";
import { loadCheckpoint } from "speedtronic/checkpoint";
import { describe, expect, it } from "vitest";
import { recordEvents, temporaryFolder, tinyConfig, weightHashes } from "./helpers.js";

const variants: [string, ConfigInput["optimizer"] & object, readonly string[]][] = [
  ["muon", { name: "muon" }, ["exp_avg", "exp_avg_sq", "momentum_buffer"]],
  [
    "muon_plus, cautious",
    { name: "muon", muon_plus: true, cautious: true, muon_lr: 0.02 },
    ["exp_avg", "exp_avg_sq", "momentum_buffer"],
  ],
  ["sgd", { name: "sgd", cautious: true }, ["momentum_buffer"]],
  ["lion", { name: "lion", cautious: true, cautious_rescale: true }, ["exp_avg"]],
];

async function train(outputDir: string, optimizer: object, max_steps: number, resume: boolean) {
  const events = recordEvents();
  const config = tinyConfig(outputDir, {
    run: { max_steps },
    optimizer,
    scheduler: { name: "constant" },
    data: { shuffle: true },
  });
  await trainFromConfig(config, { resume, hooks: [events.hook] });
  return events.of("train_step").map(({ loss }) => loss);
}

describe.each(variants)("%s", (_name, optimizer, slots) => {
  it("goes on after a resume to the same bits", async () => {
    const [whole, cut] = [temporaryFolder(), temporaryFolder()];
    const losses = await train(whole, optimizer, 8, false);
    const parts = [await train(cut, optimizer, 4, false), await train(cut, optimizer, 8, true)].flat();
    expect(losses).toHaveLength(8);
    expect(parts).toEqual(losses);
    expect(await weightHashes(cut, 8)).toEqual(await weightHashes(whole, 8));
  });

  it("stores its state by parameter", async () => {
    const folder = temporaryFolder();
    await train(folder, optimizer, 2, false);
    const { content } = await loadCheckpoint(folder);
    const names = [...content.optimizer.keys()];
    expect(new Set(names.map((name) => name.split(".").at(-1)))).toEqual(new Set(slots));
    if (slots.includes("momentum_buffer"))
      expect(names).toContain("transformer.h.0.attn.q_proj.weight.momentum_buffer");
  });
});

describe("a change of optimizer", () => {
  it("from AdamW to Muon is refused by name unless it is meant", async () => {
    const folder = temporaryFolder();
    await train(folder, {}, 2, false);
    await expect(train(folder, { name: "muon" }, 4, true)).rejects.toMatchObject({
      code: expect.stringMatching(/^checkpoint\./),
      message: expect.stringMatching(/optimizer/),
    });
  });
});
