// The whole library in one sitting, from a tensor to a trained model that writes. Each test is one chapter; read
// them in order.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type ConfigInput, trainFromConfig } from "speedtronic";
import { loadCheckpoint } from "speedtronic/checkpoint";
import { ByteTokenizer } from "speedtronic/data";
import { Generator, generateText, initialize, type LanguageModel, Linear, Module } from "speedtronic/nn";
import { openSafetensorsFile } from "speedtronic/safetensors";
import {
  constant,
  evaluate,
  grad,
  mul,
  Parameter,
  referenceBackend,
  relu,
  sum,
  type Tensor,
} from "speedtronic/tensor";
import { loadTrainedModel } from "speedtronic/train";
import { afterAll, beforeAll, expect, test } from "vitest";

let folder = "";
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "speedtronic-tiny-"));
  writeFileSync(join(folder, "text.txt"), "the whale and the sea. ".repeat(40));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const vector = (...values: number[]) =>
  constant({ dtype: "float32", shape: [values.length], data: Float32Array.from(values) });
const valuesOf = (tensor: Tensor) => [...evaluate([tensor])[0]!.data];

test("a tensor is a promise of numbers: a backend keeps it", () => {
  const x = vector(1, 2, 3);
  const squares = mul(x, x);
  expect(squares.shape).toEqual([3]);
  expect(valuesOf(squares)).toEqual([1, 4, 9]);
});

test("gradients are tensors too", () => {
  const x = new Parameter([3], { data: Float32Array.of(1, 2, 3) });
  const [dx] = grad(sum(mul(x, x)), [x]);
  expect(valuesOf(dx!)).toEqual([2, 4, 6]);
  // … of which one can take the gradient again.
  expect(valuesOf(grad(sum(dx!), [x])[0]!)).toEqual([2, 2, 2]);
});

class TwoLayers extends Module {
  readonly first = new Linear(2, 8);
  readonly second = new Linear(8, 1);

  forward(x: Tensor): Tensor {
    return this.second.forward(relu(this.first.forward(x)));
  }
}

test("a module names its parameters as PyTorch does, and starts the same from the same seed", () => {
  const [one, two] = [new TwoLayers(), new TwoLayers()];
  for (const model of [one, two]) initialize(model, 42);
  expect([...one.stateDict().keys()]).toEqual(["first.weight", "first.bias", "second.weight", "second.bias"]);
  expect(one.parameterCount()).toBe(2 * 8 + 8 + 8 + 1);
  const x = constant({ dtype: "float32", shape: [1, 2], data: Float32Array.of(1, -1) });
  expect(valuesOf(one.forward(x))).toEqual(valuesOf(two.forward(x)));
});

/** A transformer over bytes, small enough to train in a second. */
const config = (name: string, steps: number): ConfigInput => ({
  run: { max_steps: steps, output_dir: join(folder, name), threads: 1 },
  model: { vocab_size: 256, max_seq_len: 16, n_layer: 1, n_head: 2, d_model: 16, dropout: 0.1 },
  data: { text_path: join(folder, "text.txt"), micro_batch_size: 4, shuffle: true },
  optimizer: { lr: 1e-2, grad_clip: 1 },
  scheduler: { warmup_steps: 2, max_steps: 6 },
});

test("a run is described by a configuration", async () => {
  const result = await trainFromConfig(config("stopped", 3));
  expect(result).toMatchObject({ steps: 3, samples: 12, tokens: 192, stop: { kind: "target" } });
  expect(result.finalLoss).toBeLessThan(Math.log(256));
});

test("a checkpoint is a folder of plain files", async () => {
  const { content, info } = await loadCheckpoint(join(folder, "stopped"));
  expect(info.step).toBe(3);
  expect(content.trainer.data).toEqual({ epoch: 0, position: 12 });

  const weights = await openSafetensorsFile(join(info.path, "model.safetensors"));
  expect(weights.entry("transformer.wte.weight")).toMatchObject({ dtype: "F32", shape: [256, 16] });
  await weights.close();
});

test("a resumed run ends with the very bits of an uninterrupted one", async () => {
  await trainFromConfig(config("whole", 6));
  await trainFromConfig(config("stopped", 6), { resume: true });
  const [whole, resumed] = await Promise.all(
    ["whole", "stopped"].map((name) => loadCheckpoint(join(folder, name))),
  );
  expect(resumed!.content.model).toEqual(whole!.content.model);
  expect(resumed!.content.optimizer).toEqual(whole!.content.optimizer);
  expect(resumed!.content.trainer).toEqual(whole!.content.trainer);
});

test("a trained model writes; the same seed writes the same", async () => {
  const { model } = await loadTrainedModel(join(folder, "whole"));
  const generator = new Generator({ model: model as LanguageModel, backend: referenceBackend });
  const write = (seed: number) =>
    generateText({ generator, tokenizer: new ByteTokenizer(), prompt: "the ", maxNewTokens: 6, seed });
  const text = await write(1);
  expect(await write(1)).toBe(text);
  expect(await write(2)).not.toBe(text);
  await generator.close();
});
