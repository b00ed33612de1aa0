// Every shipped configuration loads; what cannot be trained is named, and nothing is ignored without a word.

import { readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import {
  type ConfigInput,
  collectUnsupported,
  effectiveMaxSteps,
  formatUnsupported,
  loadConfigFile,
  refuseUnsupported,
  resolveConfig,
  scheduleHorizon,
} from "../../src/config/index.js";
import { ConfigError } from "../../src/util/errors.js";

const root = fileURLToPath(new URL("../../", import.meta.url));
const shipped = ["configs", "examples"].flatMap((folder) =>
  readdirSync(`${root}${folder}`)
    .filter((name) => /\.(?:ya?ml|json)$/.test(name))
    .map((name) => `${folder}/${name}`),
);

function report(input: ConfigInput): { refusals: string[]; notices: string[] } {
  const { refusals, notices } = collectUnsupported(resolveConfig(input));
  return { refusals: refusals.map(formatUnsupported), notices: notices.map(formatUnsupported) };
}

describe("shipped configurations", () => {
  it.each(shipped)("%s loads", async (path) => {
    await expect(loadConfigFile(root + path)).resolves.toBeDefined();
  });

  it("smoke.yaml says what it says", async () => {
    const config = await loadConfigFile(`${root}configs/smoke.yaml`);
    const { vocab_size: v, d_model: d, n_layer: l, n_head: h, n_kv_head: k, d_ff } = config.model;
    const width = Math.ceil(Math.trunc((d_ff as number) * (2 / 3)) / h) * h;
    expect(v * d + l * (2 * d + 2 * d * d + 2 * k * (d / h) * d + 3 * width * d) + d).toBe(66_880);
    expect(effectiveMaxSteps(config) * config.data.target_batch_size * config.data.block_size).toBe(256);
    expect(config).toMatchObject({
      run: { max_steps: 4, name: "smoke" },
      data: { num_tokens: 256, micro_batch_size: 1, target_batch_size: 2 },
      optimizer: { name: "adamw", lr: 3e-4, weight_decay: 0.01 },
      scheduler: { warmup_steps: 1, max_steps: 4 },
      precision: { mode: "fp32" },
      checkpoint: { every_steps: 2, keep_last: 2 },
    });
    expect(collectUnsupported(config)).toEqual({ refusals: [], notices: [] });
  });

  it("v2_smoke.yaml ends its schedule with the run and keeps its warm-up", async () => {
    const config = await loadConfigFile(`${root}configs/v2_smoke.yaml`);
    expect(scheduleHorizon(config)).toBe(2);
    expect(config.scheduler.warmup_steps).toBe(100);
    expect(config.optimizer).toMatchObject({ name: "muon", muon_plus: true, cautious: true });
    expect(config).toMatchObject({ ooo_backprop: true, ooo_streams: 2 });
  });
});

describe("what cannot be trained", () => {
  it("is nothing by default", () => {
    expect(report({})).toEqual({ refusals: [], notices: [] });
  });

  it.each<[ConfigInput, string]>([
    [
      { device: "cuda:1" },
      'run.device is "cuda:1": only the device cpu exists here; use "cpu", or "auto", which means the same',
    ],
    [
      { device: "mps" },
      'run.device is "mps": only the device cpu exists here; use "cpu", or "auto", which means the same',
    ],
    [
      { gradient_checkpointing: true },
      "gradient_checkpointing is true: recomputing activations is not built yet, and the model has no setGradientCheckpointing of its own; set it to false, and lower data.micro_batch_size if memory is short",
    ],
    [
      { data: { dataset: "x.pt" } },
      'data.dataset is "x.pt": loading a stored dataset is not built yet, and pickled ones never will be, since they run code; name a text file with data.text_path',
    ],
    [
      { data: { validation_fraction: 0.1 } },
      "data.validation_fraction is 0.1: only a text can be split, and there is nothing to learn from held-out random tokens; set it to 0, or name a text file with data.text_path",
    ],
    [
      { evaluation: { every_steps: 10 } },
      "evaluation.every_steps is 10: there is nothing to evaluate on; hold out a part of the text with data.validation_fraction, such as 0.05",
    ],
    [
      { lora: { rank: 4 } },
      "lora.base is null: adapters to random weights learn nothing, and no trained ones are named; name a run, a checkpoint or a safetensors file, or set lora.rank to null",
    ],
    [
      { lora: { rank: 4, base: "x" }, distributed: { enabled: true, repo_id: "a/b" } },
      "lora.rank is 4: adapters are trained on one machine only; set it to null, or set distributed.enabled to false",
    ],
  ])("%j", (input, message) => {
    expect(report(input)).toEqual({ refusals: [message], notices: [] });
    expect(() => refuseUnsupported(resolveConfig(input))).toThrow(message);
  });

  it("depends on the data that a program hands over", () => {
    const refused = (input: ConfigInput, given: Parameters<typeof collectUnsupported>[1]) =>
      collectUnsupported(resolveConfig(input), given).refusals.map(formatUnsupported);
    const split: ConfigInput = { data: { validation_fraction: 0.1 }, evaluation: { every_steps: 10 } };
    expect(refused(split, { hasDataset: true })).toEqual([]);
    expect(refused({ evaluation: { every_steps: 10 } }, { hasValidation: true })).toEqual([]);
    expect(refused(split, { hasValidation: true })).toEqual([
      "data.validation_fraction is 0.1: samples for the validation loss are handed over as well; keep one of the two",
    ]);
  });

  it("is refused all at once, with exit code 2", () => {
    const config = resolveConfig({
      device: "cuda",
      gradient_checkpointing: true,
      lora: { rank: 4 },
    });
    const error = (() => {
      try {
        refuseUnsupported(config);
      } catch (caught) {
        return caught;
      }
      return undefined;
    })();
    expect(error).toBeInstanceOf(ConfigError);
    expect((error as ConfigError).exitCode).toBe(2);
    expect((error as ConfigError).code).toBe("config.unsupported");
    expect((error as ConfigError).message.split("\n")).toEqual([
      "this configuration cannot be trained here, for 3 reasons",
      '  run.device is "cuda": only the device cpu exists here; use "cpu", or "auto", which means the same',
      expect.stringContaining("gradient_checkpointing is true"),
      expect.stringContaining("lora.base is null"),
    ]);
  });
});

describe("what amounts to something else", () => {
  it.each<[ConfigInput, string]>([
    [{ compile: true }, "compile is true: the training graph is always compiled; the key changes nothing"],
    [
      { ooo_backprop: true },
      "ooo_backprop is true: not engaged: a CPU has no streams to schedule; results are the same",
    ],
    [
      { optimizer: { fused: false } },
      "optimizer.fused is false: the update always runs as one fused kernel; results are the same",
    ],
    [{ data: { pin_memory: true } }, "data.pin_memory is true: not engaged: there is no GPU to copy to"],
    [
      { data: { num_workers: 3 } },
      "data.num_workers is 3: one reader prepares the data, 6 micro-batches ahead; the order does not depend on it",
    ],
    [
      { optimizer: { muon_momentum: 0.9 } },
      'optimizer.muon_momentum is 0.9: not used: it belongs to the optimizer "muon"; remove it',
    ],
    [
      { optimizer: { muon_routes: { "transformer.h.0": "adamw" } } },
      'optimizer.muon_routes: not used: it belongs to the optimizer "muon"; remove it',
    ],
    [
      { optimizer: { name: "lion", sgd_nesterov: false } },
      'optimizer.sgd_nesterov is false: not used: it belongs to the optimizer "sgd"; remove it',
    ],
    [{ distributed: { inner_steps: 10 } }, "distributed: not used: distributed.enabled is false"],
    [{ lora: { alpha: 16 } }, "lora: not used: lora.rank is null"],
    [
      { sampling: { top_k: 3 } },
      "sampling: not used: neither sampling.every_steps nor sampling.at_end is set",
    ],
    [
      { data: { text_path: "a", dataset: "b" } },
      'data.dataset is "b": not used: data.text_path comes first; remove one of the two',
    ],
  ])("%j", (input, message) => {
    expect(report(input)).toEqual({ refusals: [], notices: [message] });
  });

  it("is nothing where a key has its usual meaning", () => {
    const input: ConfigInput = {
      seed: 9,
      precision: "bf16",
      optimizer: { fused: true },
      data: { num_workers: 1, pin_memory: false, shuffle: true },
      sampling: { at_end: true, top_k: 3 },
    };
    expect(report(input)).toEqual({ refusals: [], notices: [] });
  });
});

describe("accounts that ought to have access", () => {
  it("L-69: hear where it is given, since no hub can be told from here", () => {
    const distributed = { enabled: true, repo_id: "a/b", collaborators: ["ann"] };
    expect(report({ distributed })).toEqual({
      refusals: [],
      notices: [
        "distributed.collaborators: not used: no hub has a call that gives accounts access; give them access in the settings of the repository or of its organization",
      ],
    });
    expect(report({ distributed: { ...distributed, collaborators: [] } }).notices).toEqual([]);
  });
});

describe("a node that is told to wait for the network", () => {
  it("hears that it does not", () => {
    const distributed = { enabled: true, role: "worker", repo_id: "a/b" } as const;
    expect(report({ distributed }).notices).toEqual([]);
    expect(
      report({ distributed: { ...distributed, async_delta_upload: false, async_global_poll: false } }),
    ).toEqual({
      refusals: [],
      notices: ["async_delta_upload", "async_global_poll"].map(
        (key) =>
          `distributed.${key} is false: not engaged: a node always sends and fetches while training goes on`,
      ),
    });
  });
});
