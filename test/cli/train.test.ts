// `speedtronic train` from its arguments to its exit code: what it prints, what it refuses, and how it resumes.

import { createHash } from "node:crypto";
import { cpSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { type CliResult, cli, sampleText, scratchFolder, startCli, writeTinyConfig } from "./harness.js";

const folder = scratchFolder();
const config = writeTinyConfig(folder, sampleText);
const train = (...args: string[]): Promise<CliResult> => cli(["train", "--config", config, ...args]);
const output = (name: string): string => join(folder, name);
const lastLine = (text: string): string => text.trimEnd().split("\n").at(-1)!;

/** Times and hashes of all files below `path`. */
function contentOf(path: string): Record<string, string> {
  const files = readdirSync(path, { recursive: true, encoding: "utf8" })
    .sort()
    .filter((name) => statSync(join(path, name)).isFile());
  return Object.fromEntries(
    files.map((name) => {
      const hash = createHash("sha256").update(readFileSync(join(path, name)));
      return [name, `${statSync(join(path, name)).mtimeMs} ${hash.digest("hex")}`];
    }),
  );
}

describe("a run", () => {
  it("of the smoke configuration ends with its counts", async () => {
    const run = startCli(["train", "--config", "configs/smoke.yaml", "--output-dir", output("smoke")]);
    expect(await run.ended).toBe(0);
    expect(run.stderr()).toBe("");
    expect(lastLine(run.stdout())).toMatch(/^completed steps=4 samples=8 tokens=256 loss=4\.\d+$/);
    expect(readdirSync(output("smoke/checkpoints")).sort()).toEqual([
      "latest.json",
      "step-000000000002",
      "step-000000000004",
    ]);
  });

  it("tells its story line by line where stdout is no terminal", async () => {
    const { code, out, err } = await train("-o", output("story"), "--max-steps", "2");
    expect({ code, err }).toEqual({ code: 0, err: "" });
    const plain = out
      .replaceAll(folder, "<folder>")
      .replace(/\d+(?:ms|\.\ds|s)/g, "<time>")
      .replace(/[\d.]+k? tok\/s/g, "<rate> tok/s")
      .replace(/(loss |grad |loss=)\d+(?:\.\d+)?/g, "$1<x>");
    expect(plain.split("\n")).toEqual([
      "training steps 0 to 2 on cpu (fp32), 24.6k parameters, 1 thread",
      "step 1/2  loss <x>  lr 0.0015  grad <x>  <rate> tok/s  eta <time>",
      "step 2/2  loss <x>  lr 0.003  grad <x>  <rate> tok/s",
      "step 2  checkpoint <folder>/story/checkpoints/step-000000000002 (<time>)",
      "reached step 2 after <time>, loss <x>",
      "completed steps=2 samples=8 tokens=256 loss=<x>",
      "",
    ]);
  });
});

it("a fresh start beside checkpoints of an earlier run says that they stay", async () => {
  await train("-o", output("again"), "--max-steps", "2");
  const { code, out } = await train("-o", output("again"), "--max-steps", "2");
  expect(code).toBe(0);
  expect(out).toMatch(
    /^warning: .*again\/checkpoints holds 1 checkpoint of earlier runs, which stay there; --resume would go on from the newest\n/,
  );
  expect(readdirSync(output("again/checkpoints")).sort()).toEqual([
    "latest.json",
    "step-000000000002",
    "step-000000000002-2",
  ]);
});

describe("--resume", () => {
  it("without any checkpoint ends with exit code 4", async () => {
    expect(await train("-o", output("none"), "--resume")).toEqual({
      code: 4,
      out: "",
      err: `speedtronic: error: there is no checkpoint to resume in ${output("none/checkpoints")}: check the output folder, or use --resume auto to start fresh\n`,
    });
  });

  it("auto warns and starts fresh, then goes on, and rewrites nothing at the target", async () => {
    const first = await train("-o", output("auto"), "--max-steps", "2", "--resume", "auto");
    expect(first.code).toBe(0);
    expect(first.out).toContain(
      "warning: resume requested but no local checkpoint was found: starting fresh\ntraining steps 0 to 2",
    );
    const second = await train("-o", output("auto"), "--max-steps", "4", "--resume", "auto");
    expect(second.out).toContain("resumed after step 2 from ");
    expect(lastLine(second.out)).toMatch(/^completed steps=4 samples=16 tokens=512 loss=\d/);

    const before = contentOf(output("auto/checkpoints"));
    const third = await train("-o", output("auto"), "--max-steps", "4", "--resume");
    expect({ ...third, out: third.out.replaceAll(folder, "<folder>") }).toEqual({
      code: 0,
      out:
        "resumed after step 4 from <folder>/auto/checkpoints/step-000000000004\n" +
        "nothing to train: step 4 is reached already\n" +
        "completed steps=4 samples=16 tokens=512 loss=None\n",
      err: "",
    });
    expect(contentOf(output("auto/checkpoints"))).toEqual(before);
  });

  it("says that bits may differ on another number of threads", async () => {
    await train("-o", output("threads"), "--max-steps", "2");
    const { code, out } = await train(
      "-o",
      output("threads"),
      "--max-steps",
      "3",
      "--resume",
      "--set",
      "run.threads=2",
    );
    expect(code).toBe(0);
    expect(out).toMatch(
      /^note: the thread count changed from 1 to 2: results may differ in their last bits /m,
    );
  });

  describe("of damaged checkpoints", () => {
    const damage = (checkpoint: string): void => {
      const file = join(checkpoint, "model.safetensors");
      const bytes = readFileSync(file);
      bytes[bytes.length - 1]! ^= 1;
      writeFileSync(file, bytes);
    };
    const newest = output("damaged/checkpoints/step-000000000004");
    const older = output("damaged/checkpoints/step-000000000002");
    beforeAll(async () => {
      await train("-o", output("damaged"), "--max-steps", "4");
      damage(newest);
    });

    it("passes over the newest and says so", async () => {
      cpSync(output("damaged"), output("fallback"), { recursive: true });
      const { code, out } = await train("-o", output("fallback"), "--resume");
      expect(code).toBe(0);
      const place = output("fallback/checkpoints/step-00000000000");
      expect(out).toContain(
        `warning: passed over ${place}4: ${place}4/model.safetensors: the content was changed or damaged`,
      );
      expect(out).toContain(`resumed after step 2 from ${place}2\n`);
      expect(lastLine(out)).toMatch(/^completed steps=6 samples=24 tokens=768 /);
    });

    it("refuses one that was named, and a folder without an intact one, with exit code 4", async () => {
      const named = await train("-o", output("other"), "--resume", newest);
      expect({ code: named.code, out: named.out }).toEqual({ code: 4, out: "" });
      expect(named.err).toContain(`${newest}/model.safetensors: the content was changed or damaged`);
      damage(older);
      const none = await train("-o", output("damaged"), "--resume");
      expect({ code: none.code, out: none.out }).toEqual({ code: 4, out: "" });
      expect(none.err).toContain("no intact checkpoint");
    });
  });
});

describe("refuses, with a message and an exit code", () => {
  const file = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text);
    return join(folder, name);
  };
  const blocked = file("plain-file", "");
  const short = file("short.txt", "too short");
  const accented = file("accented.txt", "é".repeat(400));

  it.each<[string, number, string[], string | RegExp]>([
    [
      "an unknown key",
      2,
      ["--set", "optimizer.lrr=1"],
      "--set optimizer.lrr: unknown key; did you mean optimizer.lr?",
    ],
    [
      "a wrong type",
      2,
      ["--set", "data.shuffle=maybe"],
      '--set data.shuffle: expected true or false, got the text "maybe"',
    ],
    [
      "a missing configuration",
      2,
      ["--config", output("nowhere.yaml")],
      `${output("nowhere.yaml")}: no such file`,
    ],
    ["a missing text", 3, ["--set", `data.text_path=${output("nowhere.txt")}`], output("nowhere.txt")],
    ["a text shorter than one block", 3, ["--set", `data.text_path=${short}`], /short\.txt.*9 .*33/s],
    ["heads that do not divide", 2, ["--set", "model.n_head=3"], /model\.(d_model|n_head).*32.*3/s],
    [
      "a vocabulary too small for the bytes",
      3,
      ["--set", "model.vocab_size=128", "--set", `data.text_path=${accented}`],
      /vocabulary is too small for the tokenizer: .*accented\.txt.* has byte 195 \(0xc3\) at offset 0/,
    ],
    [
      "an output folder below a plain file",
      4,
      ["-o", join(blocked, "run")],
      "checkpoints cannot be written there",
    ],
    ["the device cuda", 2, ["--device", "cuda"], 'run.device is "cuda": only the device cpu exists here'],
    [
      "the device cuda:1",
      2,
      ["--device", "cuda:1"],
      'run.device is "cuda:1": only the device cpu exists here',
    ],
    ["the device mps", 2, ["--device", "mps"], 'run.device is "mps": only the device cpu exists here'],
    [
      "a repository that is none",
      2,
      ["--set", "distributed.enabled=true", "--set", "distributed.repo_id=a b"],
      'distributed.repo_id is "a b"',
    ],
    [
      "recomputing activations",
      2,
      ["--set", "gradient_checkpointing=true"],
      "gradient_checkpointing is true: recomputing activations is not built yet",
    ],
    [
      "an unknown model",
      2,
      ["--set", "model.name=reference_transfomer"],
      'unknown model "reference_transfomer" (did you mean "reference_transformer"?)',
    ],
  ])("%s: %i", async (_what, expected, args, message) => {
    const { code, out, err } = await train("-o", output("refused"), ...args);
    expect({ code, out }, err).toEqual({ code: expected, out: "" });
    expect(err).toMatch(/^speedtronic: error: /);
    expect(err).not.toMatch(/\n\s+at /);
    if (typeof message === "string") expect(err).toContain(message);
    else expect(err).toMatch(message);
  });

  it("a loss that is not finite: 5, and keeps the checkpoints", async () => {
    const { code, out, err } = await train(
      "-o",
      output("diverged"),
      ...[
        "--set",
        "optimizer.lr=1e30",
        "--set",
        "checkpoint.every_steps=1",
        "--set",
        "scheduler.name=constant",
      ],
    );
    expect(code).toBe(5);
    expect(err).toMatch(
      /^speedtronic: error: step \d+: the (loss|gradient norm) is \S+; the weights of step \d+ /,
    );
    expect(out).toMatch(/\nfailed at step \d+ after \S+, loss \S+\n$/);
    expect(readdirSync(output("diverged/checkpoints"))).toContain("latest.json");
  });

  it("a second process in the same output folder: 4", async () => {
    mkdirSync(output("shared"), { recursive: true });
    const results = await Promise.all([train("-o", output("shared")), train("-o", output("shared"))]);
    expect(results.map(({ code }) => code).sort()).toEqual([0, 4]);
    expect(results.find(({ code }) => code === 4)!.err).toMatch(
      /checkpoint directory is in use by .* since .*; wait for it, stop it, or choose another output folder\n$/,
    );
  });
});
