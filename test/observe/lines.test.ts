// The line forms of log files: text as Python Speedtronic writes it, and JSON that is always valid.
import { expect, test } from "vitest";
import {
  type EventPayload,
  eventCatalogue,
  formatJsonLine,
  formatTextLine,
} from "../../src/observe/index.js";
import { localTime, startPayload, stepPayload } from "./fixtures.js";

const added = { elapsed_s: 0.1234567, time: "2026-01-02T03:04:05.006Z", run_id: "run-1" };
const line = (event: string, payload: object): string =>
  formatTextLine(event, { ...payload, ...added } as EventPayload, { time: localTime });
const json = (event: string, payload: object): string =>
  formatJsonLine(event, { ...payload, ...added } as EventPayload);

test("golden text lines", () => {
  const head = "2026-01-02 03:04:05,006 |";
  expect(line("train_start", startPayload(0, 4))).toBe(
    `${head} INFO | train_start start_step=0 target_step=4 device=cpu precision=fp32 accumulation_steps=1 parameters=1340000 shape_alignment=None shape_warning_count=0 ooo_backprop=None elapsed_s=0.123457`,
  );
  expect(
    line("train_step", stepPayload(3, { lr: 1e-20, tokens: 123_456_789, tokens_per_sec: 123_456_789 })),
  ).toBe(
    `${head} INFO | train_step step=3 loss=2.34568 lr=1e-20 steps_per_sec=4 samples_per_sec=8 tokens_per_sec=1.23457e+08 samples=6 tokens=123456789 micro_batches=1 elapsed_s=0.123457`,
  );
  expect(line("optimizer_step_skipped", { step: 5, reason: "non_finite_loss", loss: Number.NaN })).toBe(
    `${head} INFO | optimizer_step_skipped step=5 reason=non_finite_loss loss=nan elapsed_s=0.123457`,
  );
  expect(
    line("custom", { flag: true, none: null, dict: { a: 1, b: [0.5, "it's", null] }, text: "two\nlines" }),
  ).toBe(
    `${head} INFO | custom flag=True none=None dict={'a': 1, 'b': [0.5, "it's", None]} text=two\\nlines elapsed_s=0.123457`,
  );
  expect(line("checkpoint_failed", { step: 5, error: "disk full" })).toBe(
    `${head} WARNING | checkpoint_failed step=5 error=disk full elapsed_s=0.123457`,
  );
  expect(line("warning", { code: "x.y", message: "mind the gap" })).toBe(`${head} WARNING | mind the gap`);
  expect(line("log", { level: "ERROR", message: "no" })).toBe(`${head} ERROR | no`);
});

test("JSON lines have the event, time and run first and keep every number readable", () => {
  const text = json("train_step", {
    step: 1,
    loss: Number.NaN,
    nested: { up: Number.POSITIVE_INFINITY },
    list: [Number.NaN, 1],
  });
  expect(text).toBe(
    '{"event":"train_step","time":"2026-01-02T03:04:05.006Z","run_id":"run-1","step":1,"loss":null,"loss_text":"nan",' +
      '"nested":{"up":null,"up_text":"inf"},"list":[null,1],"elapsed_s":0.1234567}',
  );
  expect(JSON.parse(json("e", { text: "a\nb\u2028\ud800", event: "other" }))).toEqual({
    event: "e",
    text: "a\nb\u2028\ud800",
    ...added,
  });
  expect(JSON.parse(json("e", { x: Number.NEGATIVE_INFINITY, x_text: "mine" }))).toMatchObject({
    x: null,
    x_text: "mine",
  });
});

test("the catalogue says something about each event and key, in one line", () => {
  const docs = Object.values(eventCatalogue).flatMap(({ doc, keys }) => [
    doc,
    ...Object.values(keys).map((key) => key.doc),
  ]);
  expect(docs.filter((doc) => doc.length < 8 || doc.includes("\n"))).toEqual([]);
});

test("events of the Python system keep their names and the order of their keys", () => {
  const spec = {
    train_start:
      "start_step target_step device precision accumulation_steps parameters shape_alignment shape_warning_count ooo_backprop",
    train_step: "step loss lr steps_per_sec samples_per_sec tokens_per_sec samples tokens micro_batches",
    optimizer_step_skipped: "step reason",
    checkpoint: "step path",
    train_end: "steps elapsed_s loss",
  };
  for (const [event, keys] of Object.entries(spec)) {
    const ours = Object.keys(eventCatalogue[event as keyof typeof spec].keys);
    expect(ours.slice(0, keys.split(" ").length).join(" ")).toBe(keys);
  }
});
