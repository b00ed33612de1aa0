// Limits of the Python system's configuration, one test each by its number in the list: what is better here.

import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  type ConfigInput,
  loadConfigFile,
  parseConfigText,
  resolveConfig,
  trainFromConfig,
} from "speedtronic";
import { loadCheckpoint } from "speedtronic/checkpoint";
import { describe, expect, test } from "vitest";
import { allKeys } from "../../../src/config/key-help.js";
import { formatConfig, toPlainConfig } from "../../../src/config/serialize.js";
import { errorOf } from "../../nn/helpers.js";
import { temporaryFolder, tinyConfig } from "../../train/helpers.js";

const fromYaml = (text: string) => resolveConfig(parseConfigText(text, { fileName: "run.yaml" }));
const messageOf = (text: string) => (errorOf(() => fromYaml(text)) as Error | undefined)?.message ?? "";

describe("values", () => {
  test.each([
    ['optimizer: {lr: "0.1"}', "optimizer.lr: expected a number greater than 0, got the text"],
    ['data: {drop_last: "false"}', "data.drop_last: expected true or false, got the text"],
    ["run: {max_steps: 2.5}", "run.max_steps: expected a whole number of at least 1, got 2.5"],
    ["run: {max_steps: true}", "run.max_steps: expected a whole number of at least 1, got true"],
  ])("RL-90: %s is refused with its whole path", (text, message) => {
    expect(messageOf(text)).toContain(message);
  });

  test("RL-90: {enabled: false} switches off", () => {
    expect(fromYaml("gradient_checkpointing: {enabled: false}").gradient_checkpointing).toBe(false);
  });

  test("RL-91: numbers are read as people write them", () => {
    const { optimizer, run } = fromYaml("optimizer: {lr: 3e-4, eps: 1E-8}\nrun: {max_steps: 1_000}");
    expect([optimizer.lr, optimizer.eps, run.max_steps]).toEqual([3e-4, 1e-8, 1000]);
  });

  test("RL-92: every problem is reported at once, with its place and what was meant", () => {
    const message = messageOf("model:\n  n_heads: 4\noptimizer:\n  lr: fast\n  betas: [2, 0]\n");
    expect(message).toContain("3 problems in the configuration");
    expect(message).toContain("run.yaml:2:3: model.n_heads: unknown key; did you mean model.n_head?");
    expect(message).toMatch(/run\.yaml:4:7: optimizer\.lr/);
    expect(message).toMatch(/run\.yaml:5:10: optimizer\.betas/);
  });

  test("RL-93: a key that is given twice is refused", () => {
    expect(messageOf("run:\n  seed: 1\n  seed: 2\n")).toContain("run.seed: is given twice (first in line 2)");
  });

  test("RL-94: the mark of a removed secret reads as unset", () => {
    const first = resolveConfig({ distributed: { token: "hf_secret" as never } });
    const again = resolveConfig(parseConfigText(formatConfig(first, "yaml")));
    expect(formatConfig(first, "yaml")).not.toContain("hf_secret");
    expect(again.distributed.token).toBeNull();
  });

  test("RL-95: secrets are never in plain data, text, or messages", () => {
    const config = resolveConfig({ distributed: { token: "hf_secret" as never } });
    const written = [
      JSON.stringify(toPlainConfig(config)),
      JSON.stringify(config),
      String(config.distributed.token),
    ];
    written.push(messageOf("distributed: {token: [hf_secret]}"));
    for (const text of written) expect(text).not.toContain("hf_secret");
    expect(written[3]).toContain("distributed.token");
  });

  test("RL-97: the root's false wins over the model's true", () => {
    const on: ConfigInput = { model: { gradient_checkpointing: true } };
    expect(resolveConfig(on).gradient_checkpointing).toBe(true);
    const off = resolveConfig({ ...on, gradient_checkpointing: false });
    expect([off.gradient_checkpointing, off.model.gradient_checkpointing]).toEqual([false, false]);
  });
});

describe("places", () => {
  test("RL-98: a run with a name has a folder of its own, and its resolved configuration is there", async () => {
    const outputs = ["first run", "second/run", ".."].map((name) => resolveConfig({ name }).run.output_dir);
    expect(outputs).toEqual(["runs/first-run", "runs/second-run", "runs/run"]);
    expect(resolveConfig({ name: "x", output_dir: "elsewhere" }).run.output_dir).toBe("elsewhere");

    const output = temporaryFolder();
    await trainFromConfig(tinyConfig(output, { run: { max_steps: 2 } }));
    const recorded = await loadConfigFile(join(output, "config.yaml"));
    expect(toPlainConfig(recorded)).toEqual((await loadCheckpoint(output)).content.config);
    expect(recorded.model.n_kv_head).toBe(2);
  });

  test("RL-98: a second run in the same folder leaves the first one's checkpoints alone", async () => {
    const output = temporaryFolder();
    const config = (seed: number) =>
      tinyConfig(output, { run: { max_steps: 2, seed }, checkpoint: { keep_last: 1 } });
    await trainFromConfig(config(1));
    const first = (await loadCheckpoint(output)).info;
    await trainFromConfig(config(2));
    expect(existsSync(first.path)).toBe(true);
    expect((await loadCheckpoint(first.path)).info.runId).toBe(first.runId);
  });

  test("RL-99: every key that names a place says where relative paths begin, and they begin there", async () => {
    const places = allKeys().filter(({ path }) => /(path|dir|directory|file|json_file)$/.test(path));
    expect(places.length).toBeGreaterThan(5);
    for (const { path, description } of places)
      expect(`${path}: ${description}`).toMatch(
        /relative to (the working directory|run\.output_dir)|[Ff]older of everything|user's cache folder/,
      );
    const output = temporaryFolder();
    await trainFromConfig(
      tinyConfig(output, { run: { max_steps: 1 }, checkpoint: { directory: "kept/here" } }),
    );
    expect(existsSync(join(output, "kept/here"))).toBe(true);
  });

  test("RL-96: what is no path of a file is a missing file, never a configuration", async () => {
    await expect(loadConfigFile("run: {max_steps: 3}")).rejects.toMatchObject({
      code: "config.file_missing",
    });
    const folder = temporaryFolder();
    mkdirSync(join(folder, "a"));
    writeFileSync(join(folder, "a", "run.yaml"), "run: {seed: 4}");
    await expect(loadConfigFile(join(folder, "a", "rum.yaml"))).rejects.toThrow(/did you mean run\.yaml\?/);
  });
});
