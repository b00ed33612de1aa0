// `speedtronic validate`, and what all commands share: usage errors, help, exit codes, traces.

import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { exitCodeOf, formatError } from "../../src/cli/exit-codes.js";
import { formatConfig, resolveConfig } from "../../src/config/index.js";
import * as errors from "../../src/util/errors.js";
import { cli } from "./harness.js";

const folder = mkdtempSync(join(tmpdir(), "speedtronic-cli-"));
let count = 0;

function configFile(text: string, suffix = "yaml"): string {
  const path = join(folder, `config-${count++}.${suffix}`);
  writeFileSync(path, text);
  return path;
}

describe("validate", () => {
  it("prints everything, as YAML or JSON", async () => {
    const path = configFile("{}");
    const defaults = resolveConfig({});
    expect(await cli(["validate", "--config", path])).toEqual({
      code: 0,
      out: formatConfig(defaults, "yaml"),
      err: "",
    });
    expect(await cli(["validate", `--config=${path}`, "--format", "json"])).toEqual({
      code: 0,
      out: formatConfig(defaults, "json"),
      err: "",
    });
  });

  it("applies --set and keeps the token to itself", async () => {
    const path = configFile("distributed: {token: hf_secret, repo_id: a/b}\n");
    const { code, out, err } = await cli([
      "validate",
      "-c",
      path,
      "-f",
      "json",
      "--set",
      "optimizer.lr=3e-4",
      "-s",
      "optimizer.lr=0.5",
      "--set=run.name=two words",
    ]);
    expect(code).toBe(0);
    expect(JSON.parse(out)).toMatchObject({ optimizer: { lr: 0.5 }, run: { name: "two words" } });
    expect(out + err).not.toContain("hf_secret");
    expect(err).toBe("speedtronic: note: distributed: not used: distributed.enabled is false\n");
  });

  it("warns of what train refuses and of what is suspicious", async () => {
    const path = configFile("device: cuda\nmax_steps: 5\n");
    const { code, err } = await cli(["validate", "-c", path]);
    expect(code).toBe(0);
    expect(err.replaceAll(path, "<file>")).toBe(
      "speedtronic: warning: <file>: scheduler.warmup_steps: the run ends at step 5, before the warm-up of 100 steps does; the full rate is never used\n".replace(
        "<file>:",
        "<file>:2:12:",
      ) +
        'speedtronic: warning: train would refuse this: run.device is "cuda": only the device cpu exists here; use "cpu", or "auto", which means the same\n',
    );
  });

  it("reports all problems, without a stack trace", async () => {
    const path = configFile("modle: {}\nrun: {seed: x}\n");
    const { code, out, err } = await cli(["validate", "-c", path, "--set", "data.shuffle=2"]);
    expect({ code, out }).toEqual({ code: 2, out: "" });
    expect(err.replaceAll(path, "<file>")).toBe(
      `speedtronic: error: 3 problems in the configuration
  <file>:1:1: modle: unknown key; did you mean model?
  <file>:2:13: run.seed: expected a whole number, got the text "x"
  --set data.shuffle: expected true or false, got 2
`,
    );
  });

  it.each([
    [["--trace"], {}],
    [[], { SPEEDTRONIC_TRACE: "1" }],
  ])("adds a stack trace when asked: %j %j", async (args, env) => {
    const { code, err } = await cli(["validate", ...args, "-c", join(folder, "none.yaml")], { env });
    expect(code).toBe(2);
    expect(err).toMatch(/^speedtronic: error: .*: no such file.*\n\s+at /);
    expect(err).toContain("caused by: ENOENT");
  });
});

describe("usage", () => {
  it.each<[string[], string]>([
    [
      ["validate"],
      "speedtronic: error: option '-c, --config <file>' is missing\nSee speedtronic validate --help.\n",
    ],
    [
      ["validate", "--confg", "x"],
      "speedtronic: error: unknown option '--confg'\n(Did you mean --config?)\nSee speedtronic validate --help.\n",
    ],
    [
      ["trian"],
      "speedtronic: error: unknown command 'trian'\n(Did you mean train?)\nSee speedtronic --help.\n",
    ],
    [
      ["validate", "-c", "x", "-f", "xml"],
      "speedtronic: error: option '-f, --format <format>' argument 'xml' is invalid. Allowed choices are yaml, json.\nSee speedtronic validate --help.\n",
    ],
    [
      ["generate", "-c", "x", "-p", "y", "-t", "-1"],
      "speedtronic: error: option '-t, --temperature <x>' argument '-1' is invalid. Expected a number of at least 0.\nSee speedtronic generate --help.\n",
    ],
    [
      ["generate", "-c", "x"],
      "speedtronic: error: option '-p, --prompt <text>' is missing\nSee speedtronic generate --help.\n",
    ],
  ])("%j", async (args, err) => {
    expect(await cli(args)).toEqual({ code: 2, out: "", err });
  });

  it("without arguments shows help and fails", async () => {
    const { code, out, err } = await cli([]);
    expect({ code, out }).toEqual({ code: 2, out: "" });
    expect(err).toContain("Usage: speedtronic");
  });

  it.each([["--help"], ["-h"], ["help"], ["train", "--help"], ["help", "generate"], ["validate", "-h"]])(
    "%s %s teaches by examples",
    async (...args) => {
      const { code, out, err } = await cli(args.filter((arg) => arg !== undefined));
      expect({ code, err }).toEqual({ code: 0, err: "" });
      expect(out).toMatch(/\n {2}speedtronic (?:train|validate|generate) --/);
    },
  );

  it("prints the version of the package", async () => {
    const text = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
    const { version } = JSON.parse(text) as { version: string };
    expect(await cli(["--version"])).toEqual({ code: 0, out: `${version}\n`, err: "" });
  });

  it("checks options like keys of the file", async () => {
    const path = configFile("data: {max_steps: 50}\n");
    const { code, err } = await cli(["train", "-c", path, "--max-steps", "0", "--device", "cuda"]);
    expect(code).toBe(2);
    expect(err).toBe(
      "speedtronic: error: --max-steps: run.max_steps: expected a whole number of at least 1, got 0\n",
    );
  });

  it("refuses to train what is not built, by name", async () => {
    const path = configFile("{}");
    const { code, err } = await cli(["train", "-c", path, "--device", "cuda"]);
    expect(code).toBe(2);
    expect(err).toContain('run.device is "cuda": only the device cpu exists here');
  });
});

describe("exit codes", () => {
  const options = { code: "x" };
  it.each<[unknown, number]>([
    [new errors.ConfigError("", options), 2],
    [new errors.DataError("", options), 3],
    [new errors.ModelError("", options), 3],
    [new errors.CheckpointError("", options), 4],
    [new errors.TrainingError("", options), 5],
    [new errors.InternalError("", options), 70],
    [new TypeError("x is not a function"), 70],
    [
      Object.assign(new Error("ENOSPC: no space left on device, write"), {
        code: "ENOSPC",
        syscall: "write",
      }),
      1,
    ],
    ["thrown text", 70],
  ])("%s: %i", (error, code) => {
    expect(exitCodeOf(error)).toBe(code);
  });

  it("say when a bug is ours", () => {
    expect(formatError(new TypeError("x is not a function"), { trace: false })).toBe(
      "speedtronic: error: internal error: x is not a function\nThis is a bug in speedtronic; please report it with the output of --trace.\n",
    );
  });
});

describe("the executable", () => {
  const main = fileURLToPath(new URL("../../src/cli/main.ts", import.meta.url));
  const run = (command: string): { status: number | null; stdout: string; stderr: string } =>
    spawnSync("bash", ["-c", command], { encoding: "utf8" });
  const node = `'${process.execPath}' --import tsx '${main}'`;

  it("hands on output and exit code", () => {
    const { status, stdout, stderr } = run(`${node} validate --config /nowhere/x.yaml`);
    expect({ status, stdout }).toEqual({ status: 2, stdout: "" });
    expect(stderr).toBe("speedtronic: error: /nowhere/x.yaml: no such file, and no folder /nowhere\n");
  });

  it("ends quietly when nobody reads its output", () => {
    const path = configFile("{}");
    const { stdout, stderr } = run(`set -o pipefail; ${node} validate --config '${path}' | true; echo "$?"`);
    expect({ stdout, stderr }).toEqual({ stdout: "0\n", stderr: "" });
  });
});
