// What a run tells of itself through its configuration: where events go, what its time went to, norms by parameter,
// samples of several texts, where its numbers come from.

import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { buildRuntime, type ConfigInput, trainFromConfig } from "speedtronic";
import { describe, expect, it } from "vitest";
import { readRun } from "../../src/observe/index.js";
import { parseGitStatus } from "../../src/train/run-info.node.js";
import { recordEvents, temporaryFolder, tinyConfig } from "./helpers.js";

type Payload = Readonly<Record<string, unknown>>;

const withLogging = (folder: string, logging: NonNullable<ConfigInput["logging"]>): ConfigInput => ({
  ...tinyConfig(folder),
  logging,
});

const linesOf = (path: string): Payload[] =>
  readFileSync(path, "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as Payload);

describe("logging.sinks", () => {
  it("left out, keeps metrics.jsonl beside the checkpoints, and nothing where there are none", async () => {
    const [kept, none] = [temporaryFolder(), temporaryFolder()];
    await trainFromConfig(tinyConfig(kept));
    await trainFromConfig(tinyConfig(none, { checkpoint: { enabled: false } }));
    const steps = linesOf(join(kept, "metrics.jsonl")).filter(({ event }) => event === "train_step");
    expect(steps.map(({ step }) => step)).toEqual([1, 2, 3, 4]);
    expect(readdirSync(none)).toEqual([]);
  });

  it("does not write twice what json_file writes", async () => {
    const folder = temporaryFolder();
    await trainFromConfig(withLogging(folder, { json_file: join(folder, "own.jsonl") }));
    expect(existsSync(join(folder, "own.jsonl"))).toBe(true);
    expect(existsSync(join(folder, "metrics.jsonl"))).toBe(false);
  });

  it("opens each at its place and cadence, beside the keys of before", async () => {
    const folder = temporaryFolder();
    const sinks = [
      "tensorboard",
      { type: "jsonl", path: "deep/every-third.jsonl", every_steps: 3 },
      { type: "text" },
      "trace",
    ] as const;
    await trainFromConfig(
      withLogging(folder, { sinks: [...sinks], every_steps: 2, json_file: join(folder, "all.jsonl") }),
    );
    const stepsOf = (name: string) =>
      linesOf(join(folder, name))
        .filter(({ event }) => event === "train_step")
        .map(({ step }) => step);
    expect(stepsOf("all.jsonl")).toEqual([1, 2, 4]);
    expect(stepsOf("deep/every-third.jsonl")).toEqual([1, 3, 4]);
    expect(readFileSync(join(folder, "train.log"), "utf8")).toContain("train_end steps=4");
    expect(readdirSync(join(folder, "tensorboard"))[0]).toContain("tfevents");
    const trace = JSON.parse(readFileSync(join(folder, "trace.json"), "utf8")) as { name: string }[];
    expect(trace.filter(({ name }) => /^step \d$/.test(name))).toHaveLength(4);
    expect(trace.some(({ name }) => name === "forward and backward")).toBe(true);
  });

  it("with a console shows progress where a stream is given, without one shows none", async () => {
    const shown = async (sinks: ["console"] | []) => {
      const pieces: string[] = [];
      const stream = { write: (text: string) => pieces.push(text) > 0 };
      await trainFromConfig(withLogging(temporaryFolder(), { sinks }), { stream });
      return pieces.join("");
    };
    expect(await shown(["console"])).toContain("step 4/4");
    expect(await shown([])).toBe("");
  });

  it("with a callback that throws trains on", async () => {
    const folder = temporaryFolder();
    const module = join(folder, "hook.mjs");
    writeFileSync(module, "export function onEvent() { throw new Error('mine'); }");
    const events = recordEvents();
    const result = await trainFromConfig(withLogging(folder, { sinks: [{ type: "callback", module }] }), {
      hooks: [events.hook],
    });
    expect(result.steps).toBe(4);
    expect(events.of("warning").map(({ code }) => code)).toContain("observe.sink_failed");
  });

  it("that needs a package which is not there ends the start, and everything is closed", async () => {
    const config = withLogging(temporaryFolder(), { sinks: [{ type: "wandb", project: "whales" }] });
    await expect(buildRuntime(config)).rejects.toMatchObject({ code: "observe.wandb_missing" });
  });

  it.each([
    [[{ type: "jsonl", project: "x" }], "has the key project, which says nothing to it"],
    [[{ type: "wandb" }], "entry 1 (wandb) needs the key project"],
    [["console", "callback"], "entry 2 (callback) needs the key module"],
    [
      ["jsonl", { type: "text", path: "metrics.jsonl" }],
      "writes to metrics.jsonl, and so does an earlier one",
    ],
    [["console", "console"], "console stands in it twice"],
    [["jsnol"], "expected a list of console, text, jsonl"],
    [[{ type: "text", every_steps: 0 }], "expected a list of console, text, jsonl"],
  ])("refuses %j", async (sinks, message) => {
    const config = withLogging(temporaryFolder(), { sinks: sinks as never });
    await expect(buildRuntime(config)).rejects.toThrow(message);
  });
});

describe("the time", () => {
  it("of each step is split into parts that fit into it, and that of the run adds up", async () => {
    const events = recordEvents();
    const folder = temporaryFolder();
    await trainFromConfig(tinyConfig(folder, { run: { max_steps: 6 } }), { hooks: [events.hook] });
    for (const step of events.of("train_step")) {
      const parts = [step.data_s, step.compile_s, step.graph_s, step.optimizer_s] as number[];
      expect(parts.every((seconds) => seconds >= 0)).toBe(true);
      expect(step.graph_s).toBeGreaterThan(0);
      expect(parts.reduce((a, b) => a + b)).toBeLessThanOrEqual((step.step_s as number) + 0.001);
      expect(step.sync_s).toBeUndefined();
    }
    const [first, second] = events.of("train_step");
    expect(first!.compile_s).toBeGreaterThan(second!.compile_s as number);
    const [end] = events.of("train_end");
    const times = end!.times as Record<string, number>;
    expect(Object.keys(times)).toEqual(
      expect.arrayContaining(["data", "compile", "graph", "optimizer", "checkpoint", "other"]),
    );
    const total = Object.values(times).reduce((a, b) => a + b);
    expect(Math.abs(total - (end!.elapsed_s as number))).toBeLessThan(0.1);
  });
});

describe("logging.layer_norms", () => {
  it("gives each parameter's norms, which fit the whole gradient's and change no result", async () => {
    const run = async (layer_norms: number | null) => {
      const events = recordEvents();
      const folder = temporaryFolder();
      await trainFromConfig(withLogging(folder, { layer_norms }), { hooks: [events.hook] });
      return events;
    };
    const [with2, without] = [await run(2), await run(null)];
    const losses = (events: typeof with2) => events.of("train_step").map(({ loss }) => loss);
    expect(losses(with2)).toEqual(losses(without));
    expect(without.of("layer_norms")).toEqual([]);
    const norms = with2.of("layer_norms");
    expect(norms.map(({ step }) => step)).toEqual([2, 4]);
    const steps = with2.of("train_step");
    for (const { step, gradient, parameter, update } of norms) {
      const values = Object.values(gradient as Record<string, number>);
      const whole = Math.sqrt(values.reduce((sum, value) => sum + value * value, 0));
      const reported = steps[(step as number) - 1]!.grad_norm as number;
      expect(Math.abs(whole / reported - 1)).toBeLessThan(1e-5);
      expect(Object.keys(parameter as object)).toEqual(Object.keys(gradient as object));
      expect(Object.values(update as Record<string, number>).some((value) => value > 0)).toBe(true);
    }
  });
});

describe("samples", () => {
  it("of several texts are an event each, with the text they continue", async () => {
    const folder = temporaryFolder();
    const path = join(folder, "text.txt");
    writeFileSync(path, "abcdefgh".repeat(60));
    const events = recordEvents();
    const model = { vocab_size: 256, max_seq_len: 16, n_layer: 1, n_head: 2, d_model: 8, d_ff: 12 };
    const sampling = { every_steps: 2, at_end: true, prompt: "a", prompts: ["bc", "d"], max_new_tokens: 3 };
    const data = { text_path: path };
    await trainFromConfig(tinyConfig(folder, { model, data, sampling }), { hooks: [events.hook] });
    expect(events.of("sample").map(({ step, prompt }) => [step, prompt])).toEqual([
      [2, "a"],
      [2, "bc"],
      [2, "d"],
      [4, "a"],
      [4, "bc"],
      [4, "d"],
    ]);
    const run = await readRun(folder);
    expect(run.samples).toHaveLength(6);
    expect(run.times.get("sample")).toBeGreaterThan(0);
  });
});

describe("run_info", () => {
  it("holds the configuration without secrets, the environment and the sources' state", async () => {
    const events = recordEvents();
    const config = { ...tinyConfig(temporaryFolder()), distributed: { token: "hf_secret_token" } };
    await trainFromConfig(config, { hooks: [events.hook] });
    const [info] = events.of("run_info");
    expect(info).toMatchObject({ config: { model: { n_layer: 1 } }, environment: { threads: 1 } });
    expect(JSON.stringify(info)).not.toContain("hf_secret_token");
    expect(info).toHaveProperty("git");
  });

  it("reads what git says", () => {
    const text = [
      "# branch.oid 0123abc",
      "# branch.head main",
      "# branch.ab +0 -0",
      "1 .M N... 100644 100644 100644 a b src/x.ts",
    ].join("\n");
    expect(parseGitStatus(text)).toEqual({ commit: "0123abc", branch: "main", changed_files: 1 });
    expect(parseGitStatus(text.replace("main", "(detached)"))).toMatchObject({ branch: null });
    expect(parseGitStatus("# branch.oid (initial)\n# branch.head main\n")).toBeNull();
  });
});
