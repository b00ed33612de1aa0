// Limits of the Python system's command line and registries, one test each by its number in the list.

import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { buildModel, modelNames, registerModel } from "speedtronic/nn";
import { describe, expect, test } from "vitest";
import { trainOverrides } from "../../../src/cli/commands/train.js";
import { ExitCode } from "../../../src/cli/exit-codes.js";
import { applyOverrides, resolveConfig } from "../../../src/config/index.js";
import { RunSchedule } from "../../../src/schedule/index.js";
import { cli, scratchFolder } from "../../cli/harness.js";

const folder = scratchFolder();
const write = (name: string, text: string): string => {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
};
const smoke = fileURLToPath(new URL("../../../configs/smoke.yaml", import.meta.url));

describe("checks", () => {
  test("RL-100: the light check needs neither engine nor data, the deep one looks at both", async () => {
    const path = write(
      "absent.yaml",
      `data: {text_path: ${join(folder, "absent.txt")}}\nmodel: {vocab_size: 256}\n`,
    );
    expect((await cli(["validate", "--config", path])).code).toBe(0);
    const { code, out } = await cli(["doctor", "--config", path, "--no-probe"]);
    expect(code).toBe(1);
    expect(out).toContain("absent.txt");
    // What the light check loads: a process of its own tells.
    const script = `
      import { runCli } from ${JSON.stringify(new URL("../../../src/cli/run.ts", import.meta.url).href)};
      const quiet = { out() {}, err() {}, stream: { write() {} }, env: {}, isTerminal: false, onOutputClosed() {}, onOutputFailed() {} };
      await runCli(["validate", "--config", ${JSON.stringify(smoke)}], quiet);
      console.log(process.report.getReport().sharedObjects.filter((name) => /onnxruntime/.test(name)).length);`;
    const { stdout } = spawnSync(process.execPath, ["--import", "tsx", "--input-type=module", "-e", script], {
      encoding: "utf8",
      cwd: fileURLToPath(new URL("../../../", import.meta.url)),
    });
    expect(stdout.trim()).toBe("0");
  });

  test("RL-101: the exit code tells the cause, and nobody sees a trace unasked", async () => {
    const badYaml = write("bad.yaml", "run: [\n");
    const noData = write(
      "nodata.yaml",
      `data: {text_path: ${join(folder, "none.txt")}}\nmodel: {vocab_size: 256}\n`,
    );
    const noModel = write("nomodel.yaml", "model: {name: llama, extra: {norm_eps: 0}}\n");
    const noCheckpoint = write("fresh.yaml", `run: {output_dir: ${join(folder, "fresh")}}\n`);
    for (const [args, code] of [
      [["train", "--config", badYaml], ExitCode.usage],
      [["train", "--config", join(folder, "missing.yaml")], ExitCode.usage],
      [["train", "--confg", "x"], ExitCode.usage],
      [["train", "--config", noData], ExitCode.data],
      [["validate", "--config", noModel], ExitCode.data],
      [["train", "--config", noCheckpoint, "--resume"], ExitCode.checkpoint],
    ] as const) {
      const result = await cli(args);
      expect([args.join(" "), result.code]).toEqual([args.join(" "), code]);
      expect(result.err).not.toMatch(/^\s+at /m);
    }
    expect((await cli(["train", "--config", badYaml, "--trace"])).err).toMatch(/^\s+at /m);
  });

  test("RL-102: there are a version, single keys, and results for programs", async () => {
    expect((await cli(["--version"])).out).toMatch(/^\d+\.\d+\.\d+\n$/);
    const { out } = await cli([
      "validate",
      "--config",
      smoke,
      "--set",
      "optimizer.lr=1e-2",
      "--format",
      "json",
    ]);
    expect(JSON.parse(out)).toMatchObject({ optimizer: { lr: 0.01 } });
    expect(JSON.parse((await cli(["plan", "--config", smoke, "--json"])).out)).toMatchObject({
      parameters: expect.any(Number),
    });
  });

  test("RL-103: the command line loads models of a user's own", async () => {
    write(
      "mine.mjs",
      `export function register(api) {
         api.registerModel("rl103", () => { throw new Error("not built by a check"); }, { extra: {} });
       }`,
    );
    const path = write("mine.yaml", "plugins: [./mine.mjs]\nmodel: {name: rl103}\n");
    expect(await cli(["validate", "--config", path])).toMatchObject({ code: 0, err: "" });
    const settings = await cli(["validate", "--config", path, "--set", "model.extra={a: 1}"]);
    expect(settings.err).toContain('the model "rl103" has no setting extra.a');
  });

  test("RL-105: --max-steps is checked, and a prolonged run goes on without a jump of the rate", async () => {
    const bad = await cli(["train", "--config", smoke, "--max-steps", "0"]);
    expect(bad.code).toBe(2);
    expect(bad.err).toContain("--max-steps: run.max_steps: expected a whole number of at least 1");
    const config = resolveConfig(applyOverrides({ max_steps: 100 }, trainOverrides({ maxSteps: "200" })));
    expect(config.run.max_steps).toBe(200);
    const options = { name: "cosine", warmupSteps: 0, minLrRatio: 0.1, pythonEndpoints: false } as const;
    const [short, long] = [100, 200].map((horizon) => new RunSchedule({ ...options, horizon }));
    const before = short!.at(60);
    long!.resume(JSON.parse(JSON.stringify(short!.save(60))), 60);
    expect(long!.at(60)).toBe(before);
    expect(Math.abs(long!.at(61) - before)).toBeLessThan(0.02);
  });
});

describe("registries", () => {
  test("RL-104: a taken name is refused unless asked, and only what works is listed", () => {
    const factory = () => buildModel({ name: "gpt", nLayer: 1 });
    registerModel("rl104", factory);
    expect(() => registerModel("rl104", factory)).toThrow(/registered already/);
    registerModel("rl104", factory, { replace: true });
    const names = ["gpt", "gpt2", "llama", "reference_transformer", "rl104"];
    expect(modelNames()).toEqual(expect.arrayContaining(names));
    for (const name of names) expect(buildModel({ name, nLayer: 1 }).parameterCount()).toBeGreaterThan(0);
  });
});
