// What a file or mapping means: scalars, aliases, shorthands, derived values, overrides.

import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import {
  accumulationSteps,
  applyOverrides,
  type ConfigInput,
  type ConfigProblem,
  compatSwitches,
  effectiveMaxSteps,
  formatConfig,
  loadConfigFile,
  parseConfigText,
  prefetchBatches,
  resolveConfig,
  type SpeedtronicConfig,
  scheduleHorizon,
} from "../../src/config/index.js";
import { resolvePlainScalar } from "../../src/config/scalars.js";

const fixture = (name: string): string => fileURLToPath(new URL(`fixtures/${name}`, import.meta.url));

function fromYaml(text: string): SpeedtronicConfig {
  return resolveConfig(parseConfigText(text));
}

function warningsOf(input: ConfigInput): string[] {
  const warnings: ConfigProblem[] = [];
  resolveConfig(input, { onWarning: (warning) => warnings.push(warning) });
  return warnings.map(({ path, message }) => `${path}: ${message}`);
}

describe("unquoted scalars", () => {
  it.each<[string, unknown]>([
    ["3e-4", 3e-4],
    ["1e3", 1000],
    ["1E+3", 1000],
    ["1_000", 1000],
    ["1_000.5", 1000.5],
    [".5", 0.5],
    ["5.", 5],
    ["-0", -0],
    ["+7", 7],
    ["0x1F", 31],
    ["0o17", 15],
    ["-0b101", -5],
    ["1.0e-08", 1e-8],
    [".inf", Number.POSITIVE_INFINITY],
    ["-.INF", Number.NEGATIVE_INFINITY],
    [".nan", Number.NaN],
    ["yes", true],
    ["Off", false],
    ["TRUE", true],
    ["", null],
    ["~", null],
    ["Null", null],
    ["tRue", "tRue"],
    ["y", "y"],
    ["n", "n"],
    ["010", "010"],
    ["12:30", "12:30"],
    ["1__0", "1__0"],
    ["_1", "_1"],
    ["1_", "1_"],
    [".", "."],
    ["e3", "e3"],
    ["1.2.3", "1.2.3"],
    ["2024-01-01", "2024-01-01"],
  ])("%s", (text, value) => {
    expect(resolvePlainScalar(text)).toBe(value);
  });
});

describe("files", () => {
  it("reads the habits of YAML 1.1", async () => {
    const config = await loadConfigFile(fixture("yaml11.yaml"));
    expect(config.run).toMatchObject({ name: "on", max_steps: 1000 });
    expect(config.model).toMatchObject({ n_layer: 2, tie_weights: true });
    expect(config.data).toMatchObject({ drop_last: false, shuffle: true, synthetic: true });
    expect(config.optimizer).toMatchObject({ lr: 3e-4, eps: 1e-8, grad_clip: 1, betas: [0.9, 0.95] });
    expect(config.distributed.token).toBeNull();
    expect(config.checkpoint.keep_last).toBeNull();
    expect(config.shape_validation.alignment).toBe("auto");
  });

  it("reads JSON with aliases, shorthands and any case", async () => {
    const config = await loadConfigFile(fixture("python-style.json"));
    expect(config.run.name).toBe("from-json");
    expect(config.distributed).toMatchObject({ repo_id: "a/b", role: "worker", node_id: "w1" });
    expect(config.precision.mode).toBe("bf16");
    expect(config.compile).toBe(true);
    expect(config.gradient_checkpointing).toBe(false);
    expect(config.logging.level).toBe("WARNING");
    expect(config.scheduler.name).toBe("constant");
  });

  it("reads JSON escapes", async () => {
    expect((await loadConfigFile(fixture("unicode.json"))).run.name).toBe("😀 é/\t");
  });

  it.each(["", "# nothing\n", "null", "{}", "\uFEFFrun:\n", "run: null\nmodel:\n"])(
    "takes %j for the defaults",
    (text) => {
      expect(fromYaml(text)).toEqual(resolveConfig({}));
    },
  );

  it("follows aliases, and merges with own keys first", () => {
    const { run, data } = fromYaml("run: {seed: &s 5}\ndata:\n  <<: {seed: 9, shuffle: on}\n  seed: *s\n");
    expect(run.seed).toBe(5);
    expect(data).toMatchObject({ seed: 5, shuffle: true });
  });
});

describe("aliases and shorthands", () => {
  it("moves root keys into run, over what is nested there, with a warning", () => {
    const input = {
      name: "n",
      seed: 1,
      device: "cpu",
      output_dir: "o",
      max_steps: 200,
      log_every: 3,
      run: { max_steps: 300 },
    };
    const { run } = resolveConfig(input);
    expect(run).toEqual({
      name: "n",
      seed: 1,
      device: "cpu",
      output_dir: "o",
      max_steps: 200,
      log_every: 3,
      threads: null,
    });
    expect(warningsOf(input)).toEqual([
      "max_steps: replaces the different value of run.max_steps; keep one of the two",
    ]);
  });

  it("takes a word for the optimizer, the precision and the compatibility preset", () => {
    const config = resolveConfig({ optimizer: "muon", muon_plus: true, cautious: true, precision: "bf16" });
    expect(config.optimizer).toMatchObject({ name: "muon", muon_plus: true, cautious: true });
    expect(config.precision.mode).toBe("bf16");
    const all = (value: boolean): unknown =>
      Object.fromEntries(compatSwitches.map(({ key }) => [key, value]));
    expect(resolveConfig({ compat: "python" }).compat).toEqual(all(true));
    expect(resolveConfig({ compat: "none" }).compat).toEqual(all(false));
    expect(resolveConfig({ compat: { text_stride: true } }).compat).toEqual({
      ...(all(false) as object),
      text_stride: true,
    });
  });

  it.each(["hub", "diloco"] as const)("takes %s for distributed", (alias) => {
    expect(resolveConfig({ [alias]: { inner_steps: 7 } }).distributed.inner_steps).toBe(7);
  });

  it.each(["gradient_checkpointing", "compile", "ooo_backprop"] as const)(
    "takes {enabled: …} for %s",
    (key) => {
      expect(resolveConfig({ [key]: { enabled: true } })[key]).toBe(true);
      expect(resolveConfig({ [key]: { enabled: false } })[key]).toBe(false);
      expect(resolveConfig({ [key]: {} })[key]).toBe(false);
      expect(resolveConfig({ [key]: null })[key]).toBe(false);
    },
  );
});

describe("derived values", () => {
  it("follow what they follow", () => {
    const config = resolveConfig({
      seed: 7,
      log_every: 5,
      model: { max_seq_len: 64, vocab_size: 99, n_head: 4, d_model: 32 },
      data: { micro_batch_size: 6 },
    });
    expect(config.model).toMatchObject({ n_kv_head: 4, d_ff: 128 });
    expect(config.data).toMatchObject({ block_size: 64, vocab_size: 99, seed: 7, target_batch_size: 6 });
    expect(config.logging.every_steps).toBe(5);
    expect(config.evaluation.batch_size).toBe(6);
    expect(config.sampling.seed).toBe(7);
  });

  it("leave explicit values alone", () => {
    expect(resolveConfig({ log_every: 5, logging: { every_steps: 1 } }).logging.every_steps).toBe(1);
    expect(resolveConfig({ seed: 7, data: { seed: 0 } }).data.seed).toBe(0);
    expect(resolveConfig({ max_steps: 4, scheduler: { max_steps: 1000 } }).scheduler.max_steps).toBe(1000);
  });

  it("drop d_ff when an exact width is given", () => {
    expect(resolveConfig({ model: { mlp_width: 100 } }).model).toMatchObject({ d_ff: null, mlp_width: 100 });
  });

  it.each([
    [undefined, true, true],
    [undefined, false, false],
    [true, false, true],
    [false, true, false],
  ])("let the root own gradient checkpointing: root %s, model %s", (root, model, expected) => {
    const config = resolveConfig({
      ...(root === undefined ? {} : { gradient_checkpointing: root }),
      model: { gradient_checkpointing: model },
    });
    expect([config.gradient_checkpointing, config.model.gradient_checkpointing]).toEqual([
      expected,
      expected,
    ]);
  });

  it("make an enabled node without a role the master", () => {
    expect(resolveConfig({ distributed: { enabled: true, repo_id: "a/b" } }).distributed.role).toBe("master");
    expect(resolveConfig({ distributed: { repo_id: "a/b" } }).distributed.role).toBe("single");
  });

  it("end the schedule with the run, wherever that is set", () => {
    expect(scheduleHorizon(resolveConfig({ max_steps: 40 }))).toBe(40);
    expect(scheduleHorizon(resolveConfig({ max_steps: 40, data: { max_steps: 30 } }))).toBe(30);
    expect(effectiveMaxSteps(resolveConfig({ max_steps: 40, data: { max_steps: 30 } }))).toBe(30);
    expect(scheduleHorizon(resolveConfig({ max_steps: 40, scheduler: { max_steps: 50 } }))).toBe(50);
  });

  it("count micro-batches", () => {
    expect(accumulationSteps(resolveConfig({ data: { micro_batch_size: 2, target_batch_size: 8 } }))).toBe(4);
    expect(prefetchBatches(resolveConfig({}))).toBe(2);
    expect(prefetchBatches(resolveConfig({ data: { num_workers: 3, prefetch_factor: 4 } }))).toBe(12);
  });

  it("warn of what is accepted though probably not meant", () => {
    expect(warningsOf({ max_steps: 40, data: { max_steps: 30 }, scheduler: { warmup_steps: 31 } })).toEqual([
      "data.max_steps: the run ends at 30, not at run.max_steps 40; keep one of the two",
      "scheduler.warmup_steps: the run ends at step 30, before the warm-up of 31 steps does; the full rate is never used",
    ]);
    expect(warningsOf({})).toEqual([]);
  });
});

describe("overrides", () => {
  const base = parseConfigText(
    "max_steps: 10\noptimizer: {lr: 1}\ncompat: python\ngradient_checkpointing: on\n",
  );
  const over = (...sets: string[]): SpeedtronicConfig => resolveConfig(applyOverrides(base, sets));

  it("win over the file, over its aliases too, and the last wins", () => {
    expect(over("run.max_steps=20").run.max_steps).toBe(20);
    expect(over("max_steps=20", "run.max_steps=30").run.max_steps).toBe(30);
    expect(over("run.max_steps=30", "max_steps=20").run.max_steps).toBe(20);
    expect(over("optimizer.lr=3e-4").optimizer.lr).toBe(3e-4);
    expect(over("compat.text_stride=off").compat).toMatchObject({ text_stride: false, double_dropout: true });
    expect(over("compat=none").compat.double_dropout).toBe(false);
    expect(over("gradient_checkpointing.enabled=false").gradient_checkpointing).toBe(false);
  });

  it("read lists, mappings, quotes and plain text", () => {
    expect(over("optimizer.betas=[0.8, 0.9]").optimizer.betas).toEqual([0.8, 0.9]);
    expect(over("optimizer={lr: 2, eps: 1e-6}").optimizer).toMatchObject({ lr: 2, eps: 1e-6 });
    expect(over('run.name="3"').run.name).toBe("3");
    expect(over("run.name=a = b: c # d").run.name).toBe("a = b: c # d");
    expect(over("sampling.prompt= two  blanks").sampling.prompt).toBe(" two  blanks");
    expect(over("data.text_path=").data.text_path).toBeNull();
    expect(over("hub.repo_id=a/b").distributed.repo_id).toBe("a/b");
  });

  it("take values from code, and a mapping as base", () => {
    const source = applyOverrides({ seed: 1 }, [{ path: "run.max_steps", value: 7 }]);
    expect(resolveConfig(source).run).toMatchObject({ seed: 1, max_steps: 7 });
  });

  it("leave the base as it was", () => {
    over("optimizer.lr=5");
    expect(resolveConfig(base).optimizer.lr).toBe(1);
  });
});

describe("settings of one model", () => {
  const extra = { norm_eps: 1e-6, qkv_bias: true, rope_scaling: { type: "linear", factor: 2 } };

  it("are taken as they are written, in files, overrides and code", () => {
    const text =
      "model:\n  name: llama\n  extra:\n    norm_eps: 1e-6\n    qkv_bias: true\n    rope_scaling: {type: linear, factor: 2}\n";
    const fromFile = parseConfigText(text, { format: "yaml" });
    expect(resolveConfig(fromFile).model.extra).toEqual(extra);
    expect(resolveConfig({ model: { extra } }).model.extra).toEqual(extra);
    const overridden = applyOverrides(fromFile, ["model.extra={head_dim: 8}"]);
    expect(resolveConfig(overridden).model.extra).toEqual({ head_dim: 8 });
    expect(resolveConfig({}).model.extra).toEqual({});
  });

  it("survive being written out", () => {
    const config = resolveConfig({ model: { name: "llama", extra } });
    for (const format of ["yaml", "json"] as const)
      expect(resolveConfig(parseConfigText(formatConfig(config, format), { format })).model).toEqual(
        config.model,
      );
  });

  it("are a mapping", () => {
    expect(() => resolveConfig({ model: { extra: "norm_eps" } } as never)).toThrow(
      /model.extra: expected a mapping of names to values, got the text "norm_eps"/,
    );
  });

  it("free n_head from dividing d_model where heads have a width of their own", () => {
    expect(() => resolveConfig({ model: { d_model: 10, n_head: 4 } })).toThrow(
      /4 heads do not divide d_model 10/,
    );
    const { model } = resolveConfig({
      model: { name: "llama", d_model: 10, n_head: 4, extra: { head_dim: 6 } },
    });
    expect(model.n_head).toBe(4);
  });
});
