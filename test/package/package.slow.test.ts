// The package as a user gets it: packed, installed with production dependencies outside of this project, used from
// the command line, from JavaScript and from TypeScript. Needs a package registry or a filled cache.

import { execFileSync, spawnSync } from "node:child_process";
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "speedtronic-package-"));
const user = join(folder, "user");
const installed = join(user, "node_modules/speedtronic");
const tool = (name: string): string => join(root, "node_modules/.bin", name);
/** Without the settings of the npm that may run this test, and without a download of libraries for other devices. */
const env = {
  ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(npm_|NODE_OPTIONS)/i.test(name))),
  ONNXRUNTIME_NODE_INSTALL: "skip",
};

function run(command: string, args: readonly string[], cwd: string): string {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd, encoding: "utf8", env });
  expect(status, `${command} ${args.join(" ")}\n${stdout}${stderr}`).toBe(0);
  return stdout;
}

const filesOf = (path: string): string[] =>
  readdirSync(path, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(path.length + 1))
    .sort();

interface Manifest {
  readonly version: string;
  readonly exports: Readonly<Record<string, unknown>>;
}
const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as Manifest;
const specifiers = Object.keys(manifest.exports).map((path) => `speedtronic${path.slice(1)}`);
let tarball = "";

beforeAll(() => {
  // Packing builds first.
  run("npm", ["pack", "--pack-destination", folder], root);
  tarball = join(folder, `speedtronic-${manifest.version}.tgz`);
  mkdirSync(user);
  writeFileSync(join(user, "package.json"), JSON.stringify({ name: "user", private: true, type: "module" }));
  run("npm", ["install", "--omit=dev", "--prefer-offline", "--no-audit", "--no-fund", tarball], user);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("the package", () => {
  it("holds the compiled code, its types, the kernels and the documents, and nothing else", () => {
    const files = filesOf(installed);
    const others = files.filter((name) => !/^(dist\/.*\.(js|d\.ts)|docs\/[a-z-]+\.md)$/.test(name));
    expect(others).toEqual([
      "CHANGELOG.md",
      "LICENSE",
      "README.md",
      "configs/smoke.yaml",
      "package.json",
      "wasm/kernels.wasm",
    ]);
    expect(files.filter((name) => /(^|[./])(test|fixtures?|spec)[./]/.test(name))).toEqual([]);
    const scripts = files.filter((name) => name.endsWith(".js"));
    expect(files.filter((name) => name.endsWith(".d.ts")).length).toBe(scripts.length);
  });

  it("names no place of the machine that built it", () => {
    const places = [root.replace(/\/$/, ""), tmpdir(), process.env.HOME ?? root].filter(
      (place) => place.length > 1,
    );
    const guilty = filesOf(installed).filter((name) => {
      const text = readFileSync(join(installed, name), "latin1");
      return places.some((place) => text.includes(`${place}/`));
    });
    expect(guilty).toEqual([]);
  });

  it("is what publint calls good", () => {
    const output = run(tool("publint"), [tarball, "--strict"], folder);
    expect(output).toContain("All good!");
  });
});

describe("the command", () => {
  it("trains and continues a text", () => {
    copyFileSync(join(root, "configs/smoke.yaml"), join(user, "smoke.yaml"));
    expect(run("npx", ["speedtronic", "--version"], user)).toBe(`${manifest.version}\n`);
    const trained = run("npx", ["speedtronic", "train", "--config", "smoke.yaml"], user);
    expect(trained).toMatch(/\ncompleted steps=4 samples=8 tokens=256 loss=4\.\d+\n$/);
    const args = ["--checkpoint", "runs/smoke", "--prompt", "Hello", "--max-new-tokens", "5"];
    expect(run("npx", ["speedtronic", "generate", ...args], user)).toMatch(/^Hello/);
  });
});

describe("a plugin in TypeScript", () => {
  // Later versions of Node run TypeScript by themselves.
  const { typescript } = process.features as { typescript?: unknown };
  it.skipIf(Boolean(typescript))("says what it needs, and is loaded once that is there", () => {
    writeFileSync(
      join(user, "curve.ts"),
      `import { registerSchedule } from "speedtronic/train";
      const factor: number = 0.5;
      export const register = (): void => registerSchedule("halved", () => () => factor);`,
    );
    writeFileSync(join(user, "plugin.yaml"), "plugins: [./curve.ts]\nscheduler: {name: halved}\n");
    const args = ["speedtronic", "validate", "--config", "plugin.yaml"];
    const without = spawnSync("npx", args, { cwd: user, encoding: "utf8", env });
    expect(without.status).toBe(2);
    expect(without.stderr).toContain("npm install --save-dev tsx");
    symlinkSync(join(root, "node_modules/tsx"), join(user, "node_modules/tsx"), "junction");
    expect(run("npx", args, user)).toContain("name: halved");
  });
});

describe("a program", () => {
  it("imports every subpath", () => {
    const modules = specifiers.filter((name) => !name.endsWith(".json"));
    expect(modules).toContain("speedtronic/train");
    const source = `
      const names = ${JSON.stringify(modules)};
      const exported = {};
      for (const name of names) exported[name] = Object.keys(await import(name)).length > 0;
      console.log(JSON.stringify(exported));`;
    const output = execFileSync(process.execPath, ["--input-type=module", "-e", source], { cwd: user, env });
    expect(JSON.parse(output.toString())).toEqual(Object.fromEntries(modules.map((name) => [name, true])));
    expect(run(process.execPath, ["-p", 'require("speedtronic/package.json").version'], user)).toBe(
      `${manifest.version}\n`,
    );
  });

  it("trains, with the kernels that the package brings", () => {
    writeFileSync(
      join(user, "program.mjs"),
      `import { trainFromConfig } from "speedtronic";
      const result = await trainFromConfig({
        run: { max_steps: 2, output_dir: "runs/program" },
        model: { vocab_size: 64, max_seq_len: 16, n_layer: 1, n_head: 2, d_model: 16 },
        data: { num_tokens: 16, micro_batch_size: 2, target_batch_size: 2 },
        scheduler: { warmup_steps: 1 },
      });
      console.log(result.steps, Number.isFinite(result.finalLoss));`,
    );
    expect(run(process.execPath, ["program.mjs"], user)).toBe("2 true\n");
  });

  // The library's own types are checked too, with no types of Node at hand.
  it.each([
    ["nodenext", "nodenext"],
    ["bundler", "esnext"],
  ])("in TypeScript is checked under %s resolution", (moduleResolution, module) => {
    writeFileSync(join(user, "consumer.ts"), consumer);
    const compilerOptions = { target: "es2022", module, moduleResolution, strict: true, skipLibCheck: false };
    const config = {
      compilerOptions: { ...compilerOptions, noEmit: true, types: [] },
      files: ["consumer.ts"],
    };
    writeFileSync(join(user, "tsconfig.json"), JSON.stringify(config));
    run(tool("tsc"), ["-p", "tsconfig.json"], user);
  });
});

/** Each subpath by name, and a mistake that only real types notice. */
const consumer = `
import { type ConfigInput, type Hook, type SyncCoordinator, type TrainResult, trainFromConfig } from "speedtronic";
import { CheckpointStore, loadCheckpoint } from "speedtronic/checkpoint";
import { resolveConfig } from "speedtronic/config";
import { ByteTokenizer, type Dataset } from "speedtronic/data";
import { Linear, Module, type ModelInputs, type ModelOutput } from "speedtronic/nn";
import { parseSafetensors } from "speedtronic/safetensors";
import { mul, sum, type Tensor } from "speedtronic/tensor";
import { loadTrainedModel, Trainer } from "speedtronic/train";

const config: ConfigInput = { run: { max_steps: 1 }, model: { d_model: 64 } };
const hook: Hook = (event, payload) => void [event, payload];
export const result: Promise<TrainResult> = trainFromConfig(config, { hooks: [hook] });
export const squares = (x: Tensor): Tensor => sum(mul(x, x));
export const ids: Int32Array = new ByteTokenizer().encode("text");
export const steps: Promise<number> = result.then((r) => r.steps);
export { CheckpointStore, Linear, loadCheckpoint, loadTrainedModel, Module, parseSafetensors, resolveConfig, Trainer };
export type { Dataset, ModelInputs, ModelOutput, SyncCoordinator };

// @ts-expect-error: a number of steps is a number
export const wrong: ConfigInput = { run: { max_steps: {} } };
// @ts-expect-error: there is no such result
export const missing = result.then((r) => r.stepz);
`;
