// `speedtronic generate` with models trained here: which checkpoint it takes, what it writes and when, what it refuses.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { CheckpointStore, loadCheckpoint } from "../../src/checkpoint/index.js";
import { type CliResult, cli, sampleText, scratchFolder, writeTinyConfig } from "./harness.js";

const folder = scratchFolder();
const run = join(folder, "run");
const checkpoints = join(run, "checkpoints");
const generate = (...args: string[]): Promise<CliResult> => cli(["generate", "--checkpoint", run, ...args]);

/** The checkpoint of `run` under another folder, with its configuration changed. */
async function savedAs(name: string, change: (config: Record<string, object>) => object): Promise<string> {
  const { content } = await loadCheckpoint(run);
  const config = { ...content.config, ...change(content.config as Record<string, object>) };
  const store = new CheckpointStore({ directory: join(folder, name), keepLast: 1, runId: "changed" });
  await store.save({ ...content, config });
  return join(folder, name);
}

beforeAll(async () => {
  const config = writeTinyConfig(folder, sampleText);
  const { code, err } = await cli(["train", "--config", config, "--max-steps", "40"]);
  expect(err).toBe("");
  expect(code).toBe(0);
});

describe("generate", () => {
  it("writes the prompt and as many tokens as asked, the same for the same seed", async () => {
    const first = await generate("--prompt", "abc", "--max-new-tokens", "20", "--seed", "7");
    expect({ code: first.code, err: first.err }).toEqual({ code: 0, err: "" });
    expect(first.out).toMatch(/^abc.+\n$/s);
    expect(await generate("-p", "abc", "-n", "20", "--seed", "7")).toEqual(first);
    const other = await generate("-p", "abc", "-n", "20", "--seed", "8");
    expect(other.out).not.toBe(first.out);
    // A longer text begins with the shorter one.
    const longer = await generate("-p", "abc", "-n", "25", "--seed", "7");
    expect(longer.out.startsWith(first.out.trimEnd())).toBe(true);
  });

  it("has no use for the seed without randomness", async () => {
    const [a, b, c] = await Promise.all([
      generate("-p", "abc", "-n", "12", "--temperature", "0", "--seed", "1"),
      generate("-p", "abc", "-n", "12", "--temperature", "0", "--seed", "2"),
      generate("-p", "abc", "-n", "12", "--top-k", "1", "--seed", "3"),
    ]);
    expect(b).toEqual(a);
    expect(c).toEqual(a);
  });

  it("goes on past the context of the model", async () => {
    const { code, out } = await generate("-p", "a".repeat(40), "-n", "100", "--temperature", "0");
    expect(code).toBe(0);
    expect([...out.trimEnd()].length).toBeGreaterThan(100);
  });

  it("takes a run, its checkpoints, or one of them", async () => {
    const args = ["-p", "abc", "-n", "8", "--seed", "7"];
    const expected = await generate(...args);
    for (const path of [checkpoints, join(checkpoints, "step-000000000040")])
      expect(await cli(["generate", "-c", path, ...args])).toEqual(expected);
    const older = await cli(["generate", "-c", join(checkpoints, "step-000000000038"), ...args]);
    expect(older.code).toBe(0);
  });

  it("writes characters when they are complete", async () => {
    const place = join(folder, "accents");
    const config = writeTinyConfig(folder, "é".repeat(2000));
    await cli(["train", "-c", config, "-o", place, "--max-steps", "100", "--set", "optimizer.lr=1e-2"]);
    const pieces: string[] = [];
    const args = ["generate", "-c", place, "-p", "éé", "-t", "0"];
    const { code, out } = await cli([...args, "-n", "8"], { onOut: (text) => pieces.push(text) });
    expect(code).toBe(0);
    expect(pieces).toEqual(["éé", "é", "é", "é", "é", "\n"]);
    expect(out).toBe("éééééé\n");
    // Half a character at the end is all that is ever replaced.
    expect((await cli([...args, "-n", "7"])).out).toBe("ééééé\uFFFD\n");
  });

  it("makes control characters harmless on a terminal only", async () => {
    const prompt = "a\u001b[31mb";
    const args = ["generate", "-c", run, "-p", prompt, "-n", "1", "-t", "0"];
    expect((await cli(args)).out.startsWith(prompt)).toBe(true);
    expect((await cli(args, { isTerminal: true })).out.startsWith("a\\x1b[31mb")).toBe(true);
  });

  it("passes over a damaged checkpoint and says so", async () => {
    const file = join(await savedAs("damaged", () => ({})), "step-000000000040/model.safetensors");
    const store = new CheckpointStore({ directory: join(folder, "damaged"), keepLast: 2, runId: "changed" });
    const { content } = await loadCheckpoint(run);
    await store.save({ ...content, trainer: { ...content.trainer, step: 39 } });
    await store.save({ ...content, trainer: { ...content.trainer, step: 41 } });
    const newest = file.replace("040", "041");
    writeFileSync(newest, readFileSync(newest).subarray(0, 1000));
    const { code, out, err } = await cli(["generate", "-c", join(folder, "damaged"), "-p", "abc", "-n", "3"]);
    expect({ code, err }).toEqual({
      code: 0,
      err: expect.stringMatching(
        /^speedtronic: warning: passed over .*041: .*file is truncated: have 1000 of \d+ bytes\n$/,
      ) as string,
    });
    expect(out).toMatch(/^abc/);
  });
});

describe("generate refuses", () => {
  it("an empty prompt", async () => {
    expect(await generate("-p", "")).toEqual({
      code: 2,
      out: "",
      err: "speedtronic: error: --prompt is empty: give at least one character to continue\n",
    });
  });

  it("a place without a checkpoint", async () => {
    const { code, out, err } = await cli(["generate", "-c", join(folder, "nothing"), "-p", "x"]);
    expect({ code, out }).toEqual({ code: 4, out: "" });
    expect(err).toBe(`speedtronic: error: ${join(folder, "nothing")} does not exist; check the path\n`);
  });

  it("a character that the model has no id for", async () => {
    const place = join(folder, "ascii");
    const config = writeTinyConfig(folder, sampleText);
    await cli(["train", "-c", config, "-o", place, "--max-steps", "2", "--set", "model.vocab_size=128"]);
    expect(await cli(["generate", "-c", place, "-p", "a café"])).toEqual({
      code: 3,
      out: "",
      err:
        'speedtronic: error: the prompt has byte 195 (0xc3, in "é") at offset 5, but the vocabulary of this model ends ' +
        'at id 127: leave "é" out, or train a model with model.vocab_size 256\n',
    });
    expect((await cli(["generate", "-c", place, "-p", "a cafe", "-n", "2"])).code).toBe(0);
  });

  it("a model that this program does not know", async () => {
    const place = await savedAs("stranger", ({ model }) => ({
      model: { ...model, name: "my_own" },
    }));
    const { code, err } = await cli(["generate", "-c", place, "-p", "x"]);
    expect(code).toBe(3);
    expect(err).toContain(
      `${place}/step-000000000040: its model cannot be built: unknown model "my_own"; registered: `,
    );
    expect(err).toMatch(/registered: (?:.*, )?gpt, /);
  });

  it("weights that do not fit the configuration", async () => {
    const place = await savedAs("misfit", ({ model }) => ({ model: { ...model, n_layer: 3 } }));
    const { code, err } = await cli(["generate", "-c", place, "-p", "x"]);
    expect(code).toBe(3);
    expect(err).toContain('its weights are not those of the model "reference_transformer"');
    expect(err).toContain("missing (9):");
  });

  it("a configuration that it does not understand", async () => {
    const place = await savedAs("later", () => ({ invention: 1 }));
    const { code, err } = await cli(["generate", "-c", place, "-p", "x"]);
    expect(code).toBe(4);
    expect(err).toMatch(/its configuration is not understood.* invention: unknown key/s);
  });
});

it("a model with more ids than there are bytes is said to be one", async () => {
  const place = join(folder, "wide");
  const config = writeTinyConfig(folder, sampleText);
  await cli(["train", "-c", config, "-o", place, "--max-steps", "2", "--set", "model.vocab_size=300"]);
  const { code, err } = await cli(["generate", "-c", place, "-p", "a", "-n", "2"]);
  expect({ code, err }).toEqual({
    code: 0,
    err: "speedtronic: warning: the model knows 300 ids, text has 256 bytes: ids from 256 on are written as \uFFFD\n",
  });
});
