// Log files on a real file system: validity, append, broken tails, unwritable places, a full disk.
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { buildLogger, jsonLinesFileSink, MetricLogger, textFileSink } from "../../src/observe/index.js";
import { recordingSink, runId, startPayload, stepPayload } from "./fixtures.js";

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "observe-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const readLines = (path: string): Record<string, unknown>[] =>
  readFileSync(path, "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as Record<string, unknown>);

test("both files, in new folders, at the cadence, with hooks seeing every step", async () => {
  const jsonFile = join(folder, "a/b/metrics.jsonl");
  const file = join(folder, "c/train.log");
  const steps: number[] = [];
  const logger = buildLogger({
    runId,
    file,
    jsonFile,
    everySteps: 2,
    level: "WARNING",
    hooks: [(event, payload) => event === "train_step" && steps.push(payload.step)],
  });
  logger.emit("train_start", startPayload(0, 5));
  logger.info("hidden by the level");
  for (let step = 1; step <= 5; step++)
    logger.emit("train_step", stepPayload(step, { loss: step === 2 ? Number.NaN : 1 }));
  logger.warning("a.b", "shown");
  await logger.close();

  const lines = readLines(jsonFile);
  expect(lines.map(({ event, step }) => (step === undefined ? event : step))).toEqual([
    "train_start",
    "log",
    1,
    2,
    4,
    5,
    "warning",
  ]);
  expect(lines.every(({ run_id, time }) => run_id === runId && !Number.isNaN(Date.parse(String(time))))).toBe(
    true,
  );
  expect(lines[3]).toMatchObject({ step: 2, loss: null, loss_text: "nan" });
  const text = readFileSync(file, "utf8").trimEnd().split("\n");
  expect(text.map((row) => row.split(" | ").slice(1, 3).join(" ").split(" ").slice(0, 3).join(" "))).toEqual([
    "INFO train_start start_step=0",
    "INFO train_step step=1",
    "INFO train_step step=2",
    "INFO train_step step=4",
    "INFO train_step step=5",
    "WARNING shown",
  ]);
  expect(steps).toEqual([1, 2, 3, 4, 5]);
});

test("steps wait in the buffer, rare events and close bring everything to disk", async () => {
  const path = join(folder, "m.jsonl");
  const logger = new MetricLogger({ runId, sinks: [jsonLinesFileSink(path, { flushIntervalMs: 60_000 })] });
  logger.emit("train_start", startPayload(0, 9));
  logger.emit("train_step", stepPayload(1));
  expect(readLines(path)).toHaveLength(1);
  logger.emit("checkpoint", { step: 1, path: "x" });
  expect(readLines(path)).toHaveLength(3);
  logger.emit("train_step", stepPayload(2));
  await logger.flush();
  expect(readLines(path)).toHaveLength(4);
  await logger.close();
});

test("steps reach the disk after the interval and once the buffer is full", async () => {
  const timed = join(folder, "timed.jsonl");
  const full = join(folder, "full.jsonl");
  const logger = new MetricLogger({
    runId,
    sinks: [
      jsonLinesFileSink(timed, { flushIntervalMs: 5 }),
      jsonLinesFileSink(full, { flushBytes: 300, flushIntervalMs: 60_000 }),
    ],
  });
  logger.emit("train_step", stepPayload(1));
  logger.emit("train_step", stepPayload(2));
  expect(readLines(full)).toHaveLength(2);
  await new Promise((resolve) => setTimeout(resolve, 60));
  expect(readLines(timed)).toHaveLength(2);
  await logger.close();
});

test("what waits is written when the process ends without closing the logger", () => {
  const path = join(folder, "m.jsonl");
  const script = join(folder, "unclosed.mts");
  const library = new URL("../../src/observe/index.ts", import.meta.url).href;
  writeFileSync(
    script,
    `import { buildLogger } from ${JSON.stringify(library)};
     const logger = buildLogger({ runId: "child", jsonFile: ${JSON.stringify(path)} });
     logger.emitCustom("first", {});
     for (let step = 1; step <= 3; step++) logger.emitCustom("train_step", { step });`,
  );
  execFileSync(process.execPath, ["--import", "tsx", script], { stdio: "inherit" });
  expect(readLines(path).map(({ event, step }) => step ?? event)).toEqual(["first", 1, 2, 3]);
});

test("a resume appends; append false starts anew", async () => {
  const path = join(folder, "m.jsonl");
  const write = async (id: string, append: boolean): Promise<void> => {
    const logger = buildLogger({ runId: id, jsonFile: path, append });
    logger.emit("train_step", stepPayload(1));
    await logger.close();
  };
  await write("one", true);
  await write("two", true);
  expect(readLines(path).map(({ run_id }) => run_id)).toEqual(["one", "two"]);
  await write("three", false);
  expect(readLines(path).map(({ run_id }) => run_id)).toEqual(["three"]);
});

test.each([
  ["our own unfinished line is cut off", '{"event":"a"}\n{"event":"b","x', '{"event":"a"}\n'],
  ["our own whole line gets its end", '{"event":"a"}\n{"event":"b"}', '{"event":"a"}\n{"event":"b"}\n'],
  ["a stranger's text is kept", "notes of mine", "notes of mine\n"],
])("a file without a last line end: %s", async (_name, before, kept) => {
  const path = join(folder, "m.jsonl");
  writeFileSync(path, before);
  const logger = buildLogger({ runId, jsonFile: path });
  logger.emit("data_epoch", { epoch: 1, step: 2 });
  await logger.close();
  const text = readFileSync(path, "utf8");
  expect(text.slice(0, kept.length)).toBe(kept);
  expect(JSON.parse(text.slice(kept.length))).toMatchObject({ event: "data_epoch", epoch: 1 });
});

test("a file that cannot be opened is one warning, and the run goes on", async () => {
  writeFileSync(join(folder, "plain"), "");
  const sink = recordingSink("log");
  const logger = new MetricLogger({ runId, sinks: [sink, textFileSink(join(folder, "plain/train.log"))] });
  logger.emit("train_start", startPayload(0, 9));
  for (let step = 1; step <= 9; step++) logger.emit("train_step", stepPayload(step));
  logger.emit("train_end", { steps: 9, elapsed_s: 1, loss: 1 });
  await logger.close();
  const warnings = sink.seen
    .filter(([event]) => event === "warning")
    .map(([, { message }]) => String(message));
  expect(warnings).toHaveLength(1);
  expect(warnings[0]).toMatch(/^log file .*train\.log failed and was isolated.*(ENOTDIR|EEXIST)/);
  expect(sink.names().filter((name) => name.startsWith("train_step"))).toHaveLength(9);
});

function mountSmallDisk(path: string): boolean {
  try {
    mkdirSync(path);
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=8k", "tmpfs", path], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

test("a full disk is one warning, leaves only whole lines, and loses nothing once there is room", async (context) => {
  const disk = join(folder, "disk");
  if (!mountSmallDisk(disk)) return context.skip("needs the right to mount a small file system");
  try {
    const path = join(disk, "m.jsonl");
    const sink = recordingSink("log");
    const logger = new MetricLogger({
      runId,
      sinks: [sink, jsonLinesFileSink(path, { flushBytes: 1, flushIntervalMs: 5 })],
    });
    writeFileSync(join(disk, "ballast"), "x".repeat(4096));
    for (let step = 1; step <= 60; step++) logger.emit("train_step", stepPayload(step));
    const whole = readLines(path).length;
    expect(whole).toBeGreaterThan(5);
    expect(whole).toBeLessThan(60);
    expect(statSync(path).size).toBeLessThanOrEqual(4096);
    rmSync(join(disk, "ballast"));
    execFileSync("mount", ["-o", "remount,size=1m", disk], { stdio: "ignore" });
    await new Promise((resolve) => setTimeout(resolve, 60));
    expect(readLines(path).map(({ step }) => step)).toEqual(
      Array.from({ length: 60 }, (_, index) => index + 1),
    );
    await logger.close();
    const warnings = sink.seen
      .filter(([event]) => event === "warning")
      .map(([, { message }]) => String(message));
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toContain("ENOSPC");
  } finally {
    execFileSync("umount", [disk]);
  }
});
