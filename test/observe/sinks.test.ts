// The sinks that a configuration can name: what each writes, and that none harms another or the run.

import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, test } from "vitest";
import {
  type EventMap,
  MetricLogger,
  openSinks,
  type SinkSpec,
  tensorBoardSink,
  traceSink,
  type WandbSdk,
  wandbSink,
} from "../../src/observe/index.js";
import { messageOf, readRecords } from "../formats/tensorboard-reader.js";
import { FakeClock, recordingSink, runId, startPayload, stepPayload } from "./fixtures.js";

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "sinks-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const evaluation = (step: number, more: Record<string, unknown> = {}): EventMap["evaluation"] => ({
  step,
  loss: 2,
  perplexity: Math.exp(2),
  tokens: 100,
  elapsed_s: 0.25,
  ...more,
});

/** `tag@step` of all values in all event files of a folder, and the restarts. */
function readFolder(path: string): string[] {
  return readdirSync(path)
    .sort()
    .flatMap((name) => readRecords(readFileSync(join(path, name))))
    .flatMap((record) => {
      const event = messageOf(record);
      const step = event.integer(2);
      if (event.messages(7).length > 0) return [`restart@${step}`];
      return event
        .messages(5)
        .flatMap((summary) => summary.messages(1))
        .map((value) => `${value.text(1)}@${step}`);
    });
}

describe("TensorBoard", () => {
  it("gets every number of an event as a curve, at its cadence, and a file that says which version it is", async () => {
    const path = join(folder, "deep/tensorboard");
    const logger = new MetricLogger({ runId, sinks: [tensorBoardSink(path, { everySteps: 3 })] });
    logger.emit("train_start", startPayload(0, 5));
    for (let step = 1; step <= 5; step++) logger.emit("train_step", stepPayload(step));
    logger.emit("evaluation", evaluation(5));
    logger.emit("layer_norms", {
      step: 5,
      parameter: { "a.b": 1 },
      gradient: { "a.b": 2 },
      update: { "a.b": 3 },
    });
    logger.emit("sample", { step: 5, text: "# no heading", prompt: "p" });
    logger.emit("checkpoint", { step: 5, path: "x", save_s: 1 });
    await logger.close();

    const seen = readFolder(path);
    expect(seen.filter((tag) => tag.startsWith("train/loss"))).toEqual([
      "train/loss@1",
      "train/loss@3",
      "train/loss@5",
    ]);
    expect(seen).toEqual(
      expect.arrayContaining([
        "train/lr@3",
        "validation/loss@5",
        "validation/elapsed_s@5",
        "layer_norms/parameter/a.b@5",
        "layer_norms/update/a.b@5",
        "sample@5",
        "checkpoint/save_s@5",
        "train_start@0",
      ]),
    );
    expect(seen.filter((tag) => /run_id|time|train\/elapsed_s|train\/step@/.test(tag))).toEqual([]);
    const [name] = readdirSync(path);
    expect(name).toMatch(/^events\.out\.tfevents\.\d{10}\.run-1\./);
    const [head] = readRecords(readFileSync(join(path, name!)));
    expect(messageOf(head!).text(3)).toBe("brain.Event:2");
  });

  it("of a resumed run is a second file that replaces what is done again", async () => {
    for (const start of [0, 2]) {
      const logger = new MetricLogger({ runId, sinks: [tensorBoardSink(folder)] });
      logger.emit("train_start", startPayload(start, 4));
      for (let step = start + 1; step <= 4; step++) logger.emit("train_step", stepPayload(step));
      await logger.close();
    }
    expect(readdirSync(folder)).toHaveLength(2);
    expect(readFolder(folder).filter((tag) => /restart|train\/loss/.test(tag))).toEqual([
      "train/loss@1",
      "train/loss@2",
      "train/loss@3",
      "train/loss@4",
      "restart@3",
      "train/loss@3",
      "train/loss@4",
    ]);
  });

  it("reaches the disk with rare events, before anything is closed", async () => {
    const logger = new MetricLogger({ runId, sinks: [tensorBoardSink(folder, { flushIntervalMs: 60_000 })] });
    logger.emit("train_step", stepPayload(1));
    expect(readdirSync(folder)).toEqual([]);
    logger.emit("checkpoint", { step: 1, path: "x" });
    expect(readFolder(folder)).toContain("train/loss@1");
    await logger.close();
  });
});

describe("a trace", () => {
  interface Entry {
    readonly name: string;
    readonly ph: string;
    readonly tid: number;
    readonly ts: number;
    readonly dur: number;
  }

  it("is JSON in which the parts of a step lie within it, in their order", async () => {
    const path = join(folder, "trace.json");
    const clock = new FakeClock();
    const logger = new MetricLogger({ runId, sinks: [traceSink(path)], ...clock });
    clock.ms = 1000;
    const parts = { step_s: 0.5, data_s: 0.1, graph_s: 0.25, optimizer_s: 0.05, rss_bytes: 2 ** 20 };
    logger.emit("train_step", stepPayload(1, parts));
    clock.ms = 1300;
    logger.emit("evaluation", evaluation(1));
    logger.warning("some.code", "text");
    await logger.close();

    const entries = JSON.parse(readFileSync(path, "utf8")) as Entry[];
    const spans = entries.filter(({ ph }) => ph === "X").map(({ name, ts, dur }) => [name, ts, dur]);
    expect(spans).toEqual([
      ["step 1", 500_000, 500_000],
      ["waiting for data", 500_000, 100_000],
      ["forward and backward", 600_000, 250_000],
      ["optimizer", 850_000, 50_000],
      ["evaluation", 1_050_000, 250_000],
    ]);
    expect(entries.filter(({ ph }) => ph === "C" || ph === "i").map(({ name }) => name)).toEqual([
      "memory",
      "some.code",
    ]);
  });

  it("ends after its limit, and is still JSON", async () => {
    const path = join(folder, "trace.json");
    const logger = new MetricLogger({ runId, sinks: [traceSink(path, { maxSteps: 2 })] });
    for (let step = 1; step <= 5; step++) logger.emit("train_step", stepPayload(step, { step_s: 0.001 }));
    await logger.close();
    const entries = JSON.parse(readFileSync(path, "utf8")) as Entry[];
    expect(entries.filter(({ name }) => name.startsWith("step "))).toHaveLength(2);
  });
});

describe("Weights & Biases", () => {
  function fakeSdk() {
    const calls: unknown[][] = [];
    const sdk: WandbSdk = {
      async init(options) {
        process.on("SIGINT", endsProcess);
        calls.push(["init", options]);
        return {
          log: (data, step) => calls.push(["log", step, data]),
          finish: async () => {
            calls.push(["finish"]);
          },
        };
      },
    };
    return { calls, sdk };
  }
  const endsProcess = () => undefined;

  it("gets numbers with their step, the configuration, and an end", async () => {
    const { calls, sdk } = fakeSdk();
    const sink = await wandbSink({ project: "whales", sdk });
    const logger = new MetricLogger({ runId, sinks: [sink] });
    logger.emit("run_info", { name: "a", config: { model: { n_layer: 2 } }, environment: {}, git: null });
    logger.emit("train_start", startPayload(0, 2));
    logger.emit("train_step", stepPayload(1));
    logger.emit("evaluation", evaluation(1));
    await logger.close();

    expect(calls.map(([name, step]) => (name === "log" ? `log ${step}` : name))).toEqual([
      "init",
      "log 1",
      "log 1",
      "finish",
    ]);
    expect(calls[0]![1]).toMatchObject({ project: "whales", id: runId, config: { model: { n_layer: 2 } } });
    expect(calls[1]![2]).toMatchObject({ "train/loss": 2.3456789 });
    expect(calls[2]![2]).toMatchObject({ "validation/loss": 2 });
    // The package would end the process on Ctrl-C, before the run has saved.
    expect(process.listeners("SIGINT")).not.toContain(endsProcess);
  });

  it("that cannot be reached is a warning, and other sinks get everything", async () => {
    const sdk: WandbSdk = { init: () => Promise.reject(new Error("no network")) };
    const other = recordingSink("other");
    const sink = await wandbSink({ project: "whales", sdk });
    const logger = new MetricLogger({ runId, sinks: [other, sink] });
    for (let step = 1; step <= 3; step++) logger.emit("train_step", stepPayload(step));
    await logger.close();
    expect(other.names().filter((name) => name.startsWith("train_step"))).toHaveLength(3);
    const warnings = other.seen.filter(([event]) => event === "warning").map(([, { message }]) => message);
    expect(warnings).toEqual([expect.stringContaining("no network")]);
  });

  it("without its package is refused with what to install", async () => {
    await expect(openSinks([{ type: "wandb", project: "whales" }])).rejects.toMatchObject({
      code: "observe.wandb_missing",
      message: expect.stringContaining("npm install @wandb/sdk"),
    });
  });
});

describe("callbacks", () => {
  const write = (text: string): SinkSpec => {
    const module = join(folder, `hook-${text.length}.mjs`);
    writeFileSync(module, text);
    return { type: "callback", module, everySteps: 2 };
  };

  it("see events at their cadence", async () => {
    const spec = write(
      "export const seen = []; export function onEvent(event, payload) { seen.push([event, payload.step].join()); }",
    );
    const logger = new MetricLogger({ runId, sinks: await openSinks([spec]) });
    for (let step = 1; step <= 4; step++) logger.emit("train_step", stepPayload(step));
    await logger.close();
    const { seen } = (await import((spec as { module: string }).module)) as { seen: string[] };
    expect(seen).toEqual(["train_step,1", "train_step,2", "train_step,4"]);
  });

  it("that throw or never answer harm nobody", async () => {
    const specs = [
      write("export default { onEvent() { throw new Error('mine'); } };"),
      write("export default () => new Promise(() => {}); // hangs"),
    ];
    const other = recordingSink("other");
    const sinks = [other, ...(await openSinks(specs))];
    const logger = new MetricLogger({ runId, sinks, closeTimeoutMs: 20, queueLimit: 2 });
    for (let step = 1; step <= 9; step++) logger.emit("train_step", stepPayload(step));
    await logger.close();
    expect(other.names().filter((name) => name.startsWith("train_step"))).toHaveLength(9);
    const codes = other.seen.filter(([event]) => event === "warning").map(([, { code }]) => code);
    expect(codes).toEqual(expect.arrayContaining(["observe.sink_failed", "observe.sink_dropped"]));
  });

  it("are refused where the module has none", async () => {
    await expect(openSinks([write("export const other = 1;")])).rejects.toMatchObject({
      code: "observe.no_hook",
      message: expect.stringContaining("it exports other"),
    });
    await expect(openSinks([{ type: "callback", module: "./nowhere.mjs" }])).rejects.toMatchObject({
      code: "plugin.not_found",
    });
  });
});

test("files at cadences of their own, and a console only where there is one", async () => {
  const [text, jsonl] = [join(folder, "a.log"), join(folder, "a.jsonl")];
  const specs: SinkSpec[] = [
    { type: "console" },
    { type: "text", path: text, everySteps: 2 },
    { type: "jsonl", path: jsonl, everySteps: 4 },
  ];
  expect(await openSinks(specs)).toHaveLength(2);
  let shown = "";
  const stream = {
    write(piece: string) {
      shown += piece;
    },
  };
  const logger = new MetricLogger({ runId, sinks: await openSinks(specs, { stream, env: {} }) });
  logger.emit("train_start", startPayload(0, 5));
  for (let step = 1; step <= 5; step++) logger.emit("train_step", stepPayload(step));
  await logger.close();
  const stepsIn = (content: string, pattern: RegExp) =>
    [...content.matchAll(pattern)].map(([, step]) => step);
  expect(stepsIn(readFileSync(text, "utf8"), /train_step step=(\d)/g)).toEqual(["1", "2", "4", "5"]);
  expect(stepsIn(readFileSync(jsonl, "utf8"), /"step":(\d)/g)).toEqual(["1", "4", "5"]);
  expect(stepsIn(shown, /^step (\d)/gm)).toEqual(["1", "2", "3", "4", "5"]);
});
