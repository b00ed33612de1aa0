// A run with `data.tokenizer`: train, resume, generate, and what its peers on other machines expect of it.

import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { beforeAll, expect, it } from "vitest";
import { loadCheckpoint } from "../../src/checkpoint/index.js";
import { resolveConfig } from "../../src/config/resolve.js";
import { expectedFingerprint } from "../../src/train/fleet/expected-model.js";
import { cli, scratchFolder, writeTinyConfig } from "./harness.js";

const folder = scratchFolder();
const fixtures = fileURLToPath(new URL("../fixtures/tokenizers", import.meta.url));
const tokenizer = join(folder, "tokenizer.json");
const run = join(folder, "run");
let base: string[];

beforeAll(async () => {
  const book = readFileSync(new URL("../../assets/moby-dick.txt", import.meta.url), "utf8").slice(0, 20_000);
  cpSync(join(fixtures, "byte-level-bpe.json"), tokenizer);
  const config = writeTinyConfig(folder, book);
  base = ["--config", config, "--set", `data.tokenizer=${tokenizer}`, "--set", "model.vocab_size=600"];
  const trained = await cli(["train", ...base, "--set", "run.max_steps=4"]);
  expect({ code: trained.code, err: trained.err }).toEqual({ code: 0, err: "" });
});

it("goes on with the same tokenizer and writes text", async () => {
  const resumed = await cli(["train", ...base, "--resume"]);
  expect({ code: resumed.code, err: resumed.err }).toEqual({ code: 0, err: "" });
  expect(resumed.out).toMatch(/completed steps=6 /);
  const { code, out } = await cli(["generate", "-c", run, "-p", "Call me", "-n", "5"]);
  expect(code).toBe(0);
  expect(out).toMatch(/^Call me.+\n$/s);
});

it("is told by the tokenizer, as its peers expect", async () => {
  const { content } = await loadCheckpoint(run);
  const config = resolveConfig(content.config as never);
  const expected = await expectedFingerprint(config);
  expect(expected.tokenizer).toMatchObject({ kind: "custom", vocab_size: 600, sha256: expect.any(String) });
  expect(JSON.parse(JSON.stringify(content.fingerprint.model))).toEqual(expected);
});

it("refuses to go on with another one", async () => {
  const other = join(folder, "other.json");
  cpSync(join(fixtures, "word-piece.json"), other);
  const { code, err } = await cli(["train", ...base, "--set", `data.tokenizer=${other}`, "--resume"]);
  expect(code).toBe(4);
  expect(err).toContain("tokenizer.sha256");
});

it("refuses a model with fewer ids, before anything trains", async () => {
  const small = ["--set", "model.vocab_size=300", "--set", `run.output_dir=${join(folder, "small")}`];
  const { code, err } = await cli(["train", ...base, ...small]);
  expect(code).toBe(3);
  expect(err).toContain("it has 600 ids, the model 300. Set model.vocab_size to at least 600");
});

it("tells a missing and a damaged file apart, by name", async () => {
  const damaged = join(folder, "damaged.json");
  writeFileSync(damaged, readFileSync(tokenizer).subarray(0, 2000));
  for (const [path, words] of [
    [damaged, "does not describe a tokenizer"],
    [join(folder, "nowhere.json"), "cannot be read"],
  ] as const) {
    const { code, err } = await cli(["train", ...base, "--set", `data.tokenizer=${path}`]);
    expect(code).toBe(3);
    expect(err).toContain(path);
    expect(err).toContain(words);
  }
});
