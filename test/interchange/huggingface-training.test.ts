// The models of other people's files train like any other, chosen by name in a configuration.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import type { ConfigInput } from "../../src/config/index.js";
import { trainFromConfig } from "../../src/index.js";
import { exportHuggingFace, importHuggingFace } from "../../src/interchange/huggingface/index.js";
import type { LanguageModel } from "../../src/nn/index.js";
import { loadTrainedModel } from "../../src/train/load-model.node.js";
import { logitsOf } from "./huggingface-helpers.js";

let scratch = "";
beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), "speedtronic-hf-train-"));
});
afterAll(async () => {
  await rm(scratch, { recursive: true, force: true });
});

describe("a model that is trained here", () => {
  it.each<[string, ConfigInput["model"]]>([
    [
      "llama",
      {
        n_kv_head: 2,
        mlp_width: 48,
        extra: { head_dim: 6, norm_eps: 1e-6, qkv_bias: true, rope_scaling: { type: "linear", factor: 2 } },
      },
    ],
    ["gpt2", { d_ff: 64, dropout: 0.1, extra: { activation: "gelu" } }],
  ])("learns, is saved, and goes out as %s", async (name, model) => {
    const outputDir = join(scratch, name);
    const result = await trainFromConfig(
      {
        run: { max_steps: 30, output_dir: outputDir, threads: 1 },
        model: { name, vocab_size: 256, max_seq_len: 16, n_layer: 1, n_head: 4, d_model: 32, ...model },
        data: {
          text_path: fileURLToPath(new URL("../../assets/moby-dick.txt", import.meta.url)),
          micro_batch_size: 8,
        },
        optimizer: { lr: 1e-2 },
        scheduler: { warmup_steps: 5 },
      },
      { stream: { write: () => true } },
    );
    expect(result.finalLoss).toBeLessThan(4.5);

    const trained = await loadTrainedModel(outputDir);
    expect(trained.config.model.extra).toEqual(model!.extra);
    const folder = join(scratch, `${name}-out`);
    await exportHuggingFace(outputDir, folder);
    const ids = [[67, 97, 108, 108, 32, 109, 101]];
    const { model: back } = await importHuggingFace(folder);
    expect(logitsOf(back, ids)).toEqual(logitsOf(trained.model as LanguageModel, ids));
  });
});
