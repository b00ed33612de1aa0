// What people read when a configuration is wrong: one transcript of all cases, reviewed as a whole. After a change
// of wording run `npx vitest run test/config -u` and read the difference.

import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import {
  applyOverrides,
  type ConfigFormat,
  type ConfigInput,
  type ConfigProblem,
  loadConfigFile,
  parseConfigText,
  resolveConfig,
} from "../../src/config/index.js";
import { ConfigError } from "../../src/util/errors.js";

interface WrongCase {
  readonly title: string;
  readonly text: string;
  readonly format?: ConfigFormat;
  readonly set?: readonly string[];
}

const cases: readonly WrongCase[] = [
  { title: "unknown key, near miss", text: "model:\n  n_heads: 4\n" },
  { title: "unknown key of another section", text: "optimizer:\n  warmup_steps: 10\n" },
  {
    title: "unknown key, name from another trainer",
    text: "optimizer:\n  learning_rate: 3e-4\ntrain:\n  epochs: 3\n",
  },
  { title: "unknown key, another spelling", text: "run:\n  maxSteps: 10\n  output-dir: x\n" },
  { title: "unknown key without an idea", text: "precision:\n  quantum: true\nzzzzzz: 1\n" },
  { title: "unknown section", text: "optimiser:\n  lr: 1\nshedule: {}\n" },
  { title: "unknown switch", text: "compat:\n  text_strides: true\n" },
  { title: "unknown preset", text: "compat: pyton\n" },
  { title: "text for a number", text: 'optimizer:\n  lr: "3e-4"\n  eps: tiny\n  weight_decay: 0,1\n' },
  { title: "ambiguous numbers", text: "run:\n  max_steps: 0100\ndistributed:\n  poll_interval: 1:30\n" },
  { title: "fraction for a whole number", text: "model:\n  n_layer: 2.5\n" },
  { title: "boolean for a number", text: "run:\n  max_steps: true\n" },
  { title: "text for a boolean", text: 'data:\n  drop_last: "false"\n  shuffle: maybe\n' },
  { title: "number and boolean for text", text: "run:\n  name: 42\n  output_dir: no\n" },
  { title: "null where a value is needed", text: "run:\n  max_steps: null\n  name:\n" },
  {
    title: "out of range",
    text: "run:\n  max_steps: 0\n  threads: 100000\nmodel:\n  dropout: 1\nscheduler:\n  min_lr_ratio: 1.5\nooo_streams: 9\n",
  },
  { title: "not finite", text: "optimizer:\n  lr: .inf\n  weight_decay: .nan\n" },
  {
    title: "unknown choice",
    text: "optimizer: adam\nscheduler:\n  name: polynomial\nlogging:\n  level: verbose\n",
  },
  { title: "wrong pair", text: "optimizer:\n  betas: [0.9]\n---\n".replace("---\n", "") },
  { title: "a value where a section belongs", text: "model: gpt\ndata: [1, 2]\ndistributed: hf_secret\n" },
  { title: "a section where a value belongs", text: "run:\n  seed: {value: 3}\ncompile: {mode: fast}\n" },
  { title: "heads that do not divide", text: "model:\n  d_model: 100\n  n_head: 8\n  n_kv_head: 3\n" },
  { title: "odd head width", text: "model:\n  d_model: 60\n  n_head: 4\n" },
  { title: "plugins that are no list", text: "plugins: ./mine.ts\n" },
  { title: "adapters without size or place", text: "lora: {rank: 0, alpha: -1, targets: []}\n" },
  { title: "two widths", text: "model:\n  d_ff: 512\n  mlp_width: 300\n" },
  { title: "batches that do not divide", text: "data:\n  micro_batch_size: 8\n  target_batch_size: 20\n" },
  { title: "block longer than the context", text: "model:\n  max_seq_len: 64\ndata:\n  block_size: 128\n" },
  { title: "two vocabularies", text: "model:\n  vocab_size: 256\ndata:\n  vocab_size: 512\n" },
  { title: "no source", text: "data:\n  synthetic: false\n" },
  { title: "contradicting precision", text: "precision:\n  mode: fp32\n  dtype: bf16\n" },
  { title: "contradicting alias", text: "muon_plus: true\noptimizer:\n  name: muon\n  muon_plus: false\n" },
  { title: "muon_plus without muon", text: "muon_plus: true\n" },
  {
    title: "distributed without a repository",
    text: "distributed:\n  enabled: true\n  node_id: a/b\n  retry_max: 0.5\n",
  },
  { title: "two names for distributed", text: "distributed: {}\nhub:\n  repo_id: a/b\n" },
  { title: "a key given twice", text: "run:\n  seed: 1\n  seed: 2\nrun:\n  seed: 3\n" },
  { title: "bad indentation", text: "run:\n  seed: 1\n name: x\n" },
  { title: "tab", text: "run:\n\tseed: 1\n" },
  { title: "missing bracket", text: "optimizer:\n  betas: [0.9, 0.95\nrun:\n  seed: 1\n" },
  { title: "colon in a value", text: "run:\n  name: a: b\n" },
  { title: "two documents", text: "run: {}\n---\nrun: {}\n" },
  { title: "foreign tag", text: "run:\n  seed: !!python/object:os.system 1\n" },
  { title: "unknown anchor", text: "run:\n  seed: *nothing\n" },
  { title: "a list at the root", text: "- run\n" },
  { title: "JSON, trailing comma", text: '{\n  "run": {"seed": 1},\n}\n', format: "json" },
  { title: "JSON, single quotes", text: "{'run': {}}", format: "json" },
  { title: "JSON, cut off", text: '{"run": {"seed": 1', format: "json" },
  { title: "JSON, YAML words", text: '{"data": {"shuffle": yes}}', format: "json" },
  { title: "JSON, duplicate", text: '{"run": {"seed": 1,\n  "seed": 2}}', format: "json" },
  { title: "option, unknown key", text: "", set: ["optimizer.learnrate=1"] },
  { title: "option, wrong type", text: "run:\n  seed: 1\n", set: ["run.seed=one"] },
  { title: "option, malformed", text: "", set: ["optimizer.lr", "=3", "a..b=1", "optimizer.betas=[0.9"] },
  {
    title: "everything at once, file and option",
    text: "name: yes\nmodel:\n  n_haed: 4\n  d_model: 0\noptimizer:\n  lr: -1\n",
    set: ["data.micro_batch_size=0"],
  },
];

function failure(action: () => unknown): ConfigError {
  try {
    action();
  } catch (error) {
    if (error instanceof ConfigError) return error;
    throw error;
  }
  throw new Error("expected a ConfigError");
}

function run({ text, format = "yaml", set = [] }: WrongCase): ConfigError {
  return failure(() =>
    resolveConfig(applyOverrides(parseConfigText(text, { format, fileName: "my.yaml" }), set)),
  );
}

describe("wrong configurations", () => {
  it("are explained", async () => {
    const transcript = cases.map((wrong) => {
      const options = (wrong.set ?? []).map((set) => `--set ${set}\n`).join("");
      const input = (wrong.text + options).replace(/^/gm, "    ").trimEnd().replaceAll("\t", "→");
      return `## ${wrong.title}\n\n${input}\n\n${run(wrong).message}\n`;
    });
    await expect(transcript.join("\n")).toMatchFileSnapshot("fixtures/wrong-configs.txt");
  });

  it("are described as data too", () => {
    const error = run({ title: "", text: "model:\n  n_heads: 4\nrun: {seed: x}\n", set: ["data.seeed=1"] });
    expect(error.code).toBe("config.invalid");
    expect(error.exitCode).toBe(2);
    expect(error.details.problems).toEqual([
      {
        code: "config.unknown_key",
        path: "model.n_heads",
        message: "unknown key; did you mean model.n_head?",
        suggestion: "model.n_head",
        file: "my.yaml",
        location: { kind: "file", line: 2, column: 3 },
      },
      {
        code: "config.value",
        path: "run.seed",
        message: 'expected a whole number, got the text "x"',
        file: "my.yaml",
        location: { kind: "file", line: 3, column: 13 },
      },
      {
        code: "config.unknown_key",
        path: "data.seeed",
        message: "unknown key; did you mean data.seed?",
        suggestion: "data.seed",
        location: { kind: "option", option: "--set data.seeed" },
      },
    ] satisfies ConfigProblem[]);
  });

  it("from code have no place", () => {
    const input = { model: { n_head: 3 }, optimizer: { lr: "fast" } } as unknown as ConfigInput;
    expect(failure(() => resolveConfig(input)).message).toMatchInlineSnapshot(`
      "2 problems in the configuration
        optimizer.lr: expected a number greater than 0, got the text "fast"
        model.n_head: 3 heads do not divide d_model 256; n_head could be 1, 2, 4, or d_model 255 or 258"
    `);
    expect(failure(() => resolveConfig([] as unknown as ConfigInput)).message).toMatchInlineSnapshot(
      `"the configuration must be a mapping of sections, got a list"`,
    );
  });

  it("end in time however they are nested", () => {
    const bomb = `a: &a [x, x]\n${"bcdefghijklmnopqrstuvwxyz"
      .split("")
      .map(
        (key, index) =>
          `${key}: &${key} [*${"abcdefghijklmnopqrstuvwxyz"[index]}, *${"abcdefghijklmnopqrstuvwxyz"[index]}]\n`,
      )
      .join("")}`;
    const deep = `a: ${"[".repeat(500)}${"]".repeat(500)}`;
    for (const text of [bomb, deep, "a: &a {b: *a}", "a: &a {<<: *a}"]) {
      expect(failure(() => resolveConfig(parseConfigText(text))).exitCode).toBe(2);
    }
    expect(run({ title: "", text: `${'{"a":'.repeat(500)}1${"}".repeat(500)}`, format: "json" }).code).toBe(
      "config.syntax",
    );
  });
});

describe("files that cannot be read", () => {
  const folder = mkdtempSync(join(tmpdir(), "speedtronic-config-"));
  writeFileSync(join(folder, "smoke.yaml"), "run: {}\n");
  writeFileSync(join(folder, "latin1.yaml"), Buffer.from("run: {name: caf\xe9}\n", "latin1"));

  it.each([
    ["smoek.yaml", "no such file; did you mean smoke.yaml?", "config.file_missing"],
    ["other/x.yaml", "no such file, and no folder <folder>/other", "config.file_missing"],
    ["smoke.yaml/x.yaml", "no such file, and no folder <folder>/smoke.yaml", "config.file_missing"],
    [".", "is a folder; name the configuration file in it", "config.file_unreadable"],
    ["latin1.yaml", "is not UTF-8 text", "config.encoding"],
  ])("%s", async (name, reason, code) => {
    const error: unknown = await loadConfigFile(join(folder, name)).catch((caught: unknown) => caught);
    expect(error).toBeInstanceOf(ConfigError);
    expect((error as ConfigError).code).toBe(code);
    expect((error as ConfigError).message.replaceAll(folder, "<folder>")).toBe(
      `${join("<folder>", name).replace("<folder>/.", "<folder>")}: ${reason}`,
    );
  });
});
