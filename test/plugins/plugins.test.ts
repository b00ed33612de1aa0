// What modules named in a configuration bring: models, datasets, tokenizers, optimizers, schedules and hooks, in the
// checks and in training, which runs in a thread of its own.

import { mkdirSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { type ConfigInput, loadConfigFile, resolveConfig, trainFromConfig } from "speedtronic";
import { loadModel } from "speedtronic/checkpoint";
import { ByteTokenizer, type Tokenizer } from "speedtronic/data";
import { loadPlugins, loadTrainedModel } from "speedtronic/train";
import { describe, expect, it } from "vitest";
import { encodeSharedConfig, parseSharedConfig } from "../../src/train/fleet/run-files.js";
import { withPlugins } from "../../src/train/plugins/given.js";
import { cli } from "../cli/harness.js";
import { recordEvents, temporaryFolder, tinyConfig } from "../train/helpers.js";

const fixture = (name: string) => fileURLToPath(new URL(`../fixtures/plugins/${name}`, import.meta.url));
const everything = fixture("everything.ts");
const bigram = fixture("bigram.ts");

async function errorOf(work: Promise<unknown>): Promise<{ message: string; code: string }> {
  return work.then(
    () => expect.unreachable("it should have failed"),
    (error: unknown) => error as { message: string; code: string },
  );
}

function writeConfig(folder: string, config: ConfigInput): string {
  const path = join(folder, "run.json");
  writeFileSync(path, JSON.stringify(config));
  return path;
}

describe("a run with plugins", () => {
  it("updates by a rule of a plugin in the engine's thread, along a schedule of its own", async () => {
    const output = temporaryFolder();
    const events = recordEvents();
    const result = await trainFromConfig(
      {
        ...tinyConfig(output, {
          run: { max_steps: 5 },
          optimizer: { lr: 0.25 },
          scheduler: { warmup_steps: 0 },
        }),
        plugins: [everything],
        optimizer: { name: "sign_descent" as "adamw", lr: 0.25, weight_decay: 0 },
        scheduler: { name: "halves" as "cosine", warmup_steps: 0 },
      },
      { hooks: [events.hook] },
    );
    expect(result.steps).toBe(5);
    expect(events.of("train_step").map(({ lr }) => lr)).toEqual([0.25, 0.25, 0.125, 0.125, 0.0625]);
    const { loadCheckpoint } = await import("speedtronic/checkpoint");
    const { content } = await loadCheckpoint(output);
    const signs = [...content.optimizer].flatMap(([, { data }]) => [...data]);
    expect([...content.optimizer.keys()].every((name) => name.endsWith(".last_sign"))).toBe(true);
    expect(new Set(signs.map(Math.abs))).toEqual(new Set([1]));
    expect((globalThis as { pluginEvents?: string[] }).pluginEvents).toContain("train_end");
  });

  it("continues its state bit for bit", async () => {
    const config = (output: string, steps: number): ConfigInput => ({
      ...tinyConfig(output, { run: { max_steps: steps } }),
      plugins: [everything],
      optimizer: { name: "sign_descent" as "adamw", lr: 0.01 },
      scheduler: { name: "constant", warmup_steps: 0 },
    });
    const [whole, halves] = [temporaryFolder(), temporaryFolder()];
    await trainFromConfig(config(whole, 4));
    await trainFromConfig(config(halves, 2));
    await trainFromConfig(config(halves, 4), { resume: true });
    const [a, b] = await Promise.all([loadModel(whole), loadModel(halves)]);
    expect(b.content.model).toEqual(a.content.model);
  });

  it("trains a model with settings of its own, on a dataset of its own", async () => {
    const output = temporaryFolder();
    const base = tinyConfig(output, { run: { max_steps: 30 }, optimizer: { lr: 0.05 } });
    const { finalLoss } = await trainFromConfig({
      ...base,
      plugins: [everything, bigram],
      model: { ...base.model, name: "bigram", extra: { width: 6 } },
      data: { dataset: "counting", micro_batch_size: 2 },
      scheduler: { name: "constant", warmup_steps: 0 },
    });
    // The next number follows from the present one.
    expect(finalLoss).toBeLessThan(Math.log(16) / 2);
    const { content } = await loadModel(output);
    expect(content.model.get("embed.weight")?.shape).toEqual([16, 6]);
  });

  it("is loaded again for generation only by whoever names the plugin", async () => {
    const output = temporaryFolder();
    const base = tinyConfig(output, { run: { max_steps: 1 } });
    await trainFromConfig({ ...base, plugins: [bigram], model: { ...base.model, name: "bigram" } });
    const { model } = await loadTrainedModel(output, { plugins: [bigram] });
    expect(model.constructor.name).toBe("Bigram");
  });
});

describe("a configuration file that names plugins", () => {
  it("finds paths beside itself, and packages from there", async () => {
    const folder = temporaryFolder();
    const modules = join(folder, "node_modules", "some-plugin");
    mkdirSync(modules, { recursive: true });
    writeFileSync(
      join(modules, "package.json"),
      JSON.stringify({ name: "some-plugin", type: "module", exports: { ".": { import: "./entry.js" } } }),
    );
    writeFileSync(
      join(modules, "entry.js"),
      "export const register = (api) => api.registerSchedule('from_a_package', () => () => 1);",
    );
    writeFileSync(
      join(folder, "mine.js"),
      "export const register = (api) => api.registerSchedule('from_a_file', () => () => 1);",
    );
    const path = writeConfig(folder, {
      plugins: ["./mine.js", "some-plugin"],
      scheduler: { name: "from_a_package" as "cosine" },
    });
    const { code, out, err } = await cli(["validate", "--config", path]);
    expect(err).toBe("");
    expect(code).toBe(0);
    expect(out).toContain(join(folder, "mine.js"));
    expect(out).toContain("from_a_package");
    const config = await loadConfigFile(path);
    expect(config.plugins).toEqual([join(folder, "mine.js"), "some-plugin"]);
  });

  it("is checked with the names that its plugins bring, and no others", async () => {
    const folder = temporaryFolder();
    const path = writeConfig(folder, {
      plugins: [everything],
      optimizer: "sign_decent" as "adamw",
    });
    const { code, err } = await cli(["validate", "--config", path]);
    expect(code).toBe(2);
    expect(err).toContain('did you mean "sign_descent"?');
  });

  it("has the settings of its model checked by the model's own schema", async () => {
    const folder = temporaryFolder();
    const check = async (extra: Record<string, never> | object, name = "bigram") =>
      cli([
        "validate",
        "--config",
        writeConfig(folder, { plugins: [bigram], model: { name, extra: extra as Record<string, never> } }),
      ]);
    expect(await check({ width: 4 })).toMatchObject({ code: 0, err: "" });
    const unknown = await check({ widt: 4 });
    expect(unknown.code).toBe(3);
    expect(unknown.err).toContain('the model "bigram" has no setting extra.widt (did you mean "width"?)');
    expect((await check({ width: "wide" })).err).toContain(
      'extra.width of the model "bigram" must be a positive integer, or null, got "wide"',
    );
    expect((await check({}, "bigramm")).err).toContain('unknown model "bigramm" (did you mean "bigram"?)');
  });

  it("has settings of models that come along checked, too", async () => {
    const path = writeConfig(temporaryFolder(), { model: { name: "llama", extra: { norm_eps: -1 } } });
    const { code, err } = await cli(["validate", "--config", path]);
    expect(code).toBe(3);
    expect(err).toContain("extra.norm_eps");
  });
});

describe("names that only plugins bring", () => {
  it("are accepted in code before the plugins are loaded, and refused without any", () => {
    const optimizer = { name: "not_there_yet" as "adamw" };
    expect(resolveConfig({ plugins: ["./x.js"], optimizer }).optimizer.name).toBe("not_there_yet");
    expect(() => resolveConfig({ optimizer })).toThrow(/optimizer.name: expected "adamw"/);
    expect(() => resolveConfig({ plugins: ["./x.js"], optimizer }, { pluginsLoaded: true })).toThrow(
      /optimizer.name/,
    );
  });

  it("are checked before anything is trained", async () => {
    const config = {
      ...tinyConfig(temporaryFolder()),
      plugins: [everything],
      optimizer: { name: "typo" as "adamw" },
    };
    expect((await errorOf(trainFromConfig(config))).message).toContain('optimizer.name: expected "adamw"');
  });
});

describe("a tokenizer of a plugin", () => {
  it("is the one that the configuration names, unless the program hands over another", async () => {
    await loadPlugins([everything]);
    const config = resolveConfig({});
    const named = { ...config, data: { ...config.data, tokenizer: "digits" } };
    const { tokenizer } = await withPlugins<{ tokenizer?: Tokenizer }>(named, {}, { hooks: [] });
    expect([...tokenizer!.encode("4a2")]).toEqual([4, 2]);
    const own = new ByteTokenizer();
    expect((await withPlugins(named, { tokenizer: own }, { hooks: [] })).tokenizer).toBe(own);
    expect(await withPlugins<{ tokenizer?: Tokenizer }>(config, {}, { hooks: [] })).toEqual({});
  });
});

describe("plugins in a repository", () => {
  it("are never run: what a machine loads is its own affair", () => {
    const { source, ignored } = parseSharedConfig("plugins: [./theirs.js]\nrun: {seed: 3}\n", "config.yaml");
    expect(ignored).toEqual(["plugins"]);
    expect(resolveConfig(source as never).plugins).toEqual([]);
    expect(encodeSharedConfig(resolveConfig({ plugins: ["./mine.js"] }))).not.toContain("mine.js");
  });
});

describe("what is no plugin", () => {
  it.each([
    ["a file that is missing", "./missing.js", "plugin.not_found", /there is no file .*missing\.js/],
    ["a package that is missing", "no-such-plugin", "plugin.not_found", /npm install no-such-plugin/],
  ])("%s", async (_, plugin, code, message) => {
    const error = await errorOf(loadPlugins([plugin], temporaryFolder()));
    expect(error.code).toBe(code);
    expect(error.message).toMatch(message);
  });

  it("a module that registers nothing", async () => {
    const error = await errorOf(loadPlugins([fixture("silent.ts")]));
    expect(error.code).toBe("plugin.registers_nothing");
    expect(error.message).toContain("export a function register(api)");
  });

  it("a module that fails, with what it said; the next attempt runs it again", async () => {
    const folder = temporaryFolder();
    writeFileSync(join(folder, "broken.js"), "export function register() { throw new Error('on purpose'); }");
    const broken = relative(process.cwd(), join(folder, "broken.js"));
    for (const attempt of [1, 2]) {
      const error = await errorOf(loadPlugins([broken.startsWith(".") ? broken : `./${broken}`]));
      expect([attempt, error.code, error.message]).toEqual([
        attempt,
        "plugin.failed",
        expect.stringContaining("its register function failed: on purpose"),
      ]);
    }
  });

  it.each([
    ["a name that is taken", { name: "adamw", slots: [], update: () => {} }, "optimizer.duplicate_name"],
    ["slots that are no list", { name: "x", slots: "m", update: () => {} }, "optimizer.slots"],
    ["no update", { name: "x", slots: [] }, "optimizer.update"],
    ["a name with blanks", { name: "My rule", slots: [], update: () => {} }, "optimizer.name"],
  ])("an optimizer with %s", async (_, rule, code) => {
    const { registerOptimizer } = await import("speedtronic/train");
    expect(() => registerOptimizer(rule as Parameters<typeof registerOptimizer>[0])).toThrow(
      expect.objectContaining({ code }),
    );
  });
});

describe("parts of a plugin that fail are named, and are no bug of this program", () => {
  const failing = fixture("failing.ts");
  it.each([
    [
      "model",
      { model: { name: "failing_model" } },
      3,
      'the factory of model "failing_model" failed: the model is not',
    ],
    [
      "dataset",
      { data: { dataset: "failing_dataset" } },
      3,
      'dataset "failing_dataset" failed: the dataset is not',
    ],
    [
      "tokenizer",
      { data: { tokenizer: "failing_tokenizer" } },
      3,
      'tokenizer "failing_tokenizer" failed: the tok',
    ],
    [
      "odd tokenizer",
      { data: { tokenizer: "odd_tokenizer" } },
      3,
      'of tokenizer "odd_tokenizer" must return',
    ],
    [
      "optimizer",
      { optimizer: { name: "failing_rule" } },
      5,
      'the optimizer "failing_rule" failed: the rule is not',
    ],
  ])("%s", async (_, changes, exitCode, words) => {
    const folder = temporaryFolder();
    const config = { ...tinyConfig(folder, changes as never), plugins: [failing] };
    const { code, err } = await cli(["train", "--config", writeConfig(folder, config as never)]);
    expect(err).toContain(words);
    expect(err).not.toContain("bug");
    expect(code).toBe(exitCode);
  });
});
