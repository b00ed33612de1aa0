// The two displays, written into a stream that plays a terminal of a given width.
import { stripVTControlCharacters } from "node:util";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { buildLogger, type MetricLogger, type OutputStream } from "../../src/observe/index.js";
import { runId, startPayload, stepPayload } from "./fixtures.js";

const escapeChar = "\x1b";
const tokenPattern = new RegExp(`${escapeChar}\\[[?0-9;]*[A-Za-z]|.`, "gsu");

const colourCodes = (text: string): string[] =>
  [...text.matchAll(tokenPattern)]
    .map(([token]) => token)
    .filter((token) => token.length > 1 && token.endsWith("m"));

/** As much of a terminal as the display uses; wrapping would show as an extra row. */
class FakeTerminal implements OutputStream {
  isTTY = true;
  columns: number;
  raw = "";
  writes = 0;
  isCursorShown = true;
  longestRow = 0;
  rows: string[] = [""];
  /** Text of the bottom row after each write. */
  frames: string[] = [];
  #column = 0;

  constructor(columns: number) {
    this.columns = columns;
  }

  hasColors(): boolean {
    return true;
  }

  write(text: string): void {
    this.raw += text;
    this.writes += 1;
    for (const [token = ""] of text.matchAll(tokenPattern)) this.#take(token);
    this.frames.push(this.rows.at(-1) ?? "");
  }

  #take(token: string): void {
    const bottom = this.rows.length - 1;
    const row = this.rows[bottom] ?? "";
    if (token === "\n") this.rows.push("");
    if (token === "\n" || token === "\r") this.#column = 0;
    else if (token === "\x1b[?25l") this.isCursorShown = false;
    else if (token === "\x1b[?25h") this.isCursorShown = true;
    else if (token === "\x1b[2K") this.rows[bottom] = "";
    else if (token === "\x1b[K") this.rows[bottom] = [...row].slice(0, this.#column).join("");
    else if (!token.startsWith("\x1b")) {
      const cells = [...row.padEnd(this.#column)];
      cells[this.#column++] = token;
      this.rows[bottom] = cells.join("");
      this.longestRow = Math.max(this.longestRow, this.#column);
    }
  }
}

const env = { LANG: "en_US.UTF-8", TERM: "xterm" };

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

function train(logger: MetricLogger): void {
  logger.emit("train_start", { ...startPayload(0, 2000), threads: 2 });
  vi.advanceTimersByTime(200);
  logger.emit(
    "train_step",
    stepPayload(1, { loss: 5.5512, lr: 0.002, tokens_per_sec_train: 12_345, eta_s: 192 }),
  );
  vi.advanceTimersByTime(200);
  logger.emit("evaluation", {
    step: 100,
    loss: 2.1,
    perplexity: 8.166,
    bits_per_byte: 3.03,
    tokens: 61_000,
    elapsed_s: 3.2,
  });
  logger.emit("sample", { step: 100, prompt: "Call me", text: " Ishmael.\nSome \x1b[31mred" });
  logger.emit("checkpoint", { step: 100, path: "runs/demo/checkpoints/step-000000000100", save_s: 0.12 });
  logger.emit(
    "train_step",
    stepPayload(1000, { loss: 1.75, lr: 0.00123456, tokens_per_sec_train: 12_345, eta_s: 95 }),
  );
  vi.advanceTimersByTime(200);
}

describe("live", () => {
  test.each([20, 40, 60, 80, 120, 200])("at %d columns the status stays on one row", async (columns) => {
    const terminal = new FakeTerminal(columns);
    const logger = buildLogger({ runId, stream: terminal, env });
    logger.emit("train_start", startPayload(0, 2000));
    for (let step = 1; step <= 2000; step += 333) {
      logger.emit(
        "train_step",
        stepPayload(step, { loss: 1234.5, lr: 1.23456e-5, tokens_per_sec_train: 123_456, eta_s: 90_000 }),
      );
      vi.advanceTimersByTime(200);
      logger.emit("evaluation", { step, loss: 3, perplexity: 20, tokens: 1, elapsed_s: 1 });
    }
    const statusRows = terminal.frames.map((frame) => [...frame].length);
    expect(Math.max(...statusRows)).toBeLessThan(columns);
    expect(Math.max(...statusRows)).toBeGreaterThan(Math.min(columns, 100) / 2);
    const closing = logger.close();
    await vi.runAllTimersAsync();
    await closing;
  });

  test.each([30, 48, 72, 100, 140])("frames at %d columns", async (columns) => {
    const terminal = new FakeTerminal(columns);
    const logger = buildLogger({ runId, stream: terminal, env });
    train(logger);
    expect(terminal.frames).toMatchSnapshot();
    const closing = logger.close();
    await vi.runAllTimersAsync();
    await closing;
  });

  test("prints events above the status line, makes foreign text harmless, and gives the cursor back", async () => {
    const terminal = new FakeTerminal(100);
    const logger = buildLogger({ runId, stream: terminal, env });
    train(logger);
    expect(terminal.isCursorShown).toBe(false);
    logger.warning("x.y", "mind the gap");
    logger.emit("train_end", { steps: 2000, elapsed_s: 240, loss: 1.4321, reason: "target" });
    expect(terminal.isCursorShown).toBe(true);
    const closing = logger.close();
    await vi.runAllTimersAsync();
    await closing;
    expect(terminal.rows).toMatchSnapshot();
    expect(terminal.raw).not.toContain("\x1b[31m");
    expect(terminal.raw).toContain("\x1b[33mwarning: mind the gap\x1b[39m");
  });

  test("redraws at most ten times a second and shows the newest step at last", async () => {
    const terminal = new FakeTerminal(100);
    const logger = buildLogger({ runId, stream: terminal, env });
    logger.emit("train_start", startPayload(0, 2000));
    const before = terminal.writes;
    for (let step = 1; step <= 1000; step++) {
      logger.emit("train_step", stepPayload(step));
      vi.advanceTimersByTime(1);
    }
    expect(terminal.writes - before).toBeLessThanOrEqual(11);
    expect(terminal.writes - before).toBeGreaterThanOrEqual(9);
    vi.advanceTimersByTime(100);
    expect(terminal.frames.at(-1)).toContain("step 1000/2000");
    const closing = logger.close();
    await vi.runAllTimersAsync();
    await closing;
    expect(terminal.isCursorShown).toBe(true);
  });

  test("shows no time left at the target", () => {
    const terminal = new FakeTerminal(100);
    const logger = buildLogger({ runId, stream: terminal, env });
    logger.emit("train_start", startPayload(0, 2));
    vi.advanceTimersByTime(200);
    logger.emit("train_step", stepPayload(1, { eta_s: 3 }));
    expect(terminal.frames.at(-1)).toMatch(/eta 3\.0s$/);
    vi.advanceTimersByTime(200);
    logger.emit("train_step", stepPayload(2, { eta_s: 0 }));
    expect(terminal.frames.at(-1)).toMatch(/^step 2\/2 {2}━+ {2}100%/);
    expect(terminal.frames.at(-1)).not.toContain("eta");
    void logger.close();
  });

  test("follows a new width at the next redraw", () => {
    const terminal = new FakeTerminal(120);
    const logger = buildLogger({ runId, stream: terminal, env });
    train(logger);
    terminal.columns = 40;
    logger.emit("train_step", stepPayload(1500));
    vi.advanceTimersByTime(200);
    expect([...(terminal.frames.at(-1) ?? "")].length).toBeLessThan(40);
    void logger.close();
  });

  test("uses no colour under NO_COLOR and no Unicode without a UTF-8 locale", () => {
    const terminal = new FakeTerminal(100);
    const logger = buildLogger({ runId, stream: terminal, env: { TERM: "xterm", NO_COLOR: "1", LANG: "C" } });
    train(logger);
    expect(colourCodes(terminal.raw)).toEqual([]);
    expect(terminal.frames.at(-1)).toContain("#####");
    expect([...terminal.raw].filter((char) => char > "~")).toEqual([]);
    void logger.close();
  });
});

describe("plain", () => {
  test.each([
    ["not a terminal", { isTTY: false }, env],
    ["a dumb terminal", {}, { ...env, TERM: "dumb" }],
  ])("lines at the cadence for %s", async (_name, options, environment) => {
    const terminal = new FakeTerminal(40);
    const logger = buildLogger({
      runId,
      stream: terminal,
      everySteps: 1000,
      level: "WARNING",
      env: environment,
      ...options,
    });
    train(logger);
    logger.emit("train_step", stepPayload(1001));
    logger.info("hidden");
    logger.emit("optimizer_step_skipped", { step: 1002, reason: "non_finite_loss" });
    logger.emit("checkpoint_failed", { step: 1002, error: "no space left", kept: "step-000000000100" });
    logger.emit("train_end", { steps: 1001, elapsed_s: 240, loss: 1.4321, reason: "SIGINT" });
    logger.emitCustom("share_counted", { step: 3, share: 0.123456789, files: ["a"] });
    const closing = logger.close();
    await vi.runAllTimersAsync();
    await closing;
    expect(terminal.raw).toBe(stripVTControlCharacters(terminal.raw));
    expect(terminal.rows).toEqual([
      "training steps 0 to 2000 on cpu (fp32), 1.34M parameters, 2 threads",
      "step 1/2000  loss 5.5512  lr 0.002  12.3k tok/s  eta 3m 12s",
      "step 100  validation loss 2.1000  perplexity 8.166  bits/byte 3.03  in 3.2s",
      "step 100  sample",
      "  | Call me Ishmael.",
      "  | Some \\x1b[31mred",
      "step 100  checkpoint runs/demo/checkpoints/step-000000000100 (120ms)",
      "step 1000/2000  loss 1.7500  lr 0.00123  12.3k tok/s  eta 1m 35s",
      "step 1002 skipped: non_finite_loss",
      "warning: checkpoint of step 1002 failed: no space left; kept step-000000000100",
      "step 1001/2000  loss 2.3457  lr 0.0003  256 tok/s",
      "stopped by SIGINT at step 1001 after 4m 00s, loss 1.4321",
      'share_counted step=3 share=0.123457 files=["a"]',
      "",
    ]);
  });

  test("a broken pipe is contained", async () => {
    let fail = (_error: Error): void => {};
    const broken: OutputStream = {
      write: () => false,
      on: (_event, listener) => {
        fail = listener;
      },
    };
    const warnings: string[] = [];
    const logger = buildLogger({
      runId,
      stream: broken,
      env,
      hooks: [(event, p) => event === "warning" && warnings.push(p.message)],
    });
    logger.info("one");
    fail(new Error("write EPIPE"));
    logger.info("two");
    logger.info("three");
    const closing = logger.close();
    await vi.runAllTimersAsync();
    await closing;
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toContain("EPIPE");
  });
});
