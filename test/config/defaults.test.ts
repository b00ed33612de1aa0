// The defaults, compared as a whole with those of the Python system. The only differences are the ones that
// docs/differences.md lists, and the tables behind that page are compared with the schema.

import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { addedKeys, differingDefaults } from "../../src/config/differences.js";
import { configSchema, formatConfig, resolveConfig, toPlainConfig } from "../../src/config/index.js";
import { differencesPath, keysOf, renderDifferences } from "../../tools/generate-differences.js";

type Plain = Record<string, unknown>;

// The normalised defaults of the Python system, in its order of output.
const pythonDefaults: Plain = {
  run: {
    name: "speedtronic-run",
    seed: 1234,
    device: "auto",
    max_steps: 1000,
    output_dir: "runs",
    log_every: null,
  },
  model: {
    name: "reference_transformer",
    vocab_size: 512,
    max_seq_len: 128,
    n_layer: 4,
    n_head: 8,
    n_kv_head: 8,
    d_model: 256,
    d_ff: 1024,
    dropout: 0.0,
    tie_weights: true,
    rope_base: 10000.0,
    gradient_checkpointing: false,
  },
  data: {
    text_path: null,
    dataset: null,
    synthetic: true,
    num_tokens: 100000,
    vocab_size: 512,
    block_size: 128,
    micro_batch_size: 1,
    target_batch_size: 1,
    num_workers: 0,
    prefetch_factor: null,
    pin_memory: null,
    shuffle: false,
    drop_last: true,
    seed: 1234,
    max_steps: null,
  },
  optimizer: {
    name: "adamw",
    lr: 0.0003,
    betas: [0.9, 0.95],
    eps: 1e-8,
    weight_decay: 0.1,
    fused: null,
    grad_clip: null,
    muon_plus: false,
    cautious: false,
    muon_momentum: 0.95,
    muon_ns_steps: 5,
    muon_norm_eps: 1e-8,
  },
  scheduler: { name: "cosine", warmup_steps: 100, max_steps: 1000, min_lr_ratio: 0.1 },
  precision: { mode: "auto", dtype: null },
  checkpoint: { enabled: true, directory: "checkpoints", every_steps: 500, keep_last: 3, resume: false },
  logging: { level: "INFO", file: null, every_steps: 1, json_file: null },
  distributed: {
    enabled: false,
    mode: "dumb_diloco",
    role: "single",
    node_id: null,
    collaborators: [],
    inner_steps: 500,
    poll_interval: 60.0,
    outer_lr: 0.7,
    outer_momentum: 0.9,
    repo_id: null,
    token: null,
    cache_dir: ".speedtronic/hub",
    state_dir: ".speedtronic/diloco",
    retry_initial: 1.0,
    retry_max: 60.0,
    retry_attempts: 6,
    reset_inner_optimizer: true,
    async_delta_upload: true,
    delta_upload_queue_size: 1,
    delta_upload_overflow: "skip",
    delta_upload_shutdown_timeout: 5.0,
    async_global_poll: true,
  },
  shape_validation: {
    enabled: true,
    alignment: "auto",
    check_batch: true,
    check_sequence: true,
    check_model: true,
    check_vocab: false,
    warn_on_cpu: false,
  },
  gradient_checkpointing: false,
  compile: false,
  ooo_backprop: false,
  ooo_streams: 4,
};

function flatten(value: unknown, path = ""): [string, unknown][] {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return [[path, value]];
  // A free mapping is one key, and empty by default.
  if (Object.keys(value).length === 0) return [[path, value]];
  return Object.entries(value).flatMap(([key, child]) =>
    flatten(child, path === "" ? key : `${path}.${key}`),
  );
}

describe("defaults", () => {
  const ours = flatten(JSON.parse(formatConfig(resolveConfig({}), "json")));
  const python = flatten(pythonDefaults);
  const added = addedKeys.flatMap(({ path }) => keysOf(path).map((entry) => entry.path));

  it("are those of the Python system but for the listed ones", () => {
    const expected = new Map(python);
    for (const { path, here } of differingDefaults) expected.set(path, JSON.parse(here));
    expect(new Map(ours.filter(([path]) => !added.includes(path)))).toEqual(expected);
  });

  it("differ in exactly two keys, and the table quotes both sides", () => {
    const values = new Map(python);
    expect(differingDefaults.map(({ path, python: was, here }) => [path, was, here])).toEqual([
      ["scheduler.max_steps", "1000", "null"],
      ["distributed.reset_inner_optimizer", "true", "false"],
    ]);
    for (const { path, python: was } of differingDefaults) expect(JSON.parse(was)).toBe(values.get(path));
  });

  it("have added keys for exactly the listed paths", () => {
    const known = new Set(python.map(([path]) => path));
    expect(new Set(ours.map(([path]) => path).filter((path) => !known.has(path)))).toEqual(new Set(added));
    expect(addedKeys.every(({ reason }) => reason.length > 10)).toBe(true);
  });

  it("are written in the Python order, added sections before the scalars and compat last", () => {
    const order = Object.keys(toPlainConfig(resolveConfig({})));
    expect(order.filter((key) => key in pythonDefaults)).toEqual(Object.keys(pythonDefaults));
    expect(order.filter((key) => !(key in pythonDefaults))).toEqual([
      "evaluation",
      "sampling",
      "lora",
      "plugins",
      "compat",
    ]);
    for (const [name, section] of Object.entries(pythonDefaults)) {
      if (typeof section !== "object" || section === null) continue;
      const keys = Object.keys(toPlainConfig(resolveConfig({}))[name] as Plain);
      expect(keys.slice(0, Object.keys(section).length)).toEqual(Object.keys(section));
    }
  });

  it("are the same from the schema alone, apart from what is derived", () => {
    const sections = Object.fromEntries(
      Object.entries(pythonDefaults).map(([name, value]) => [name, typeof value === "object" ? {} : value]),
    );
    const parsed = configSchema.parse({ ...sections, evaluation: {}, sampling: {}, lora: {}, compat: {} });
    expect(parsed.optimizer).toEqual(resolveConfig({}).optimizer);
    expect(parsed.data.block_size).toBeNull();
  });
});

describe("docs/differences.md", () => {
  it("is what the tables say (run `npx tsx tools/generate-differences.ts`)", () => {
    expect(readFileSync(differencesPath, "utf8")).toBe(renderDifferences());
  });
});
