// The report: what it reads from metrics files, and the page it makes. The page is checked by a small parser of our
// own and by its texts; how it looks is for eyes.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { formatJsonLine, type RunData, readRun, readRuns, renderReport } from "../../src/observe/index.js";
import { makeScale } from "../../src/observe/report/scale.js";
import { thinOut } from "../../src/observe/report/thin.js";
import { stepPayload } from "./fixtures.js";

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "report-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const stamp = { time: "2026-01-02T03:04:05.006Z", run_id: "run-1", elapsed_s: 1 };
const line = (event: string, payload: object): string => formatJsonLine(event, { ...payload, ...stamp });

function writeRun(name: string, lines: readonly string[]): string {
  const path = join(folder, name);
  mkdirSync(path, { recursive: true });
  writeFileSync(join(path, "metrics.jsonl"), `${lines.join("\n")}\n`);
  return path;
}

const info = (config: object) =>
  line("run_info", {
    name: "whale",
    config,
    environment: { node: "20", cpu: "some" },
    git: { commit: "abc123", branch: "main", changed_files: 2 },
  });

const wholeRun = (config: object = { optimizer: { lr: 0.001 } }): string[] => [
  info(config),
  line("train_start", { start_step: 0, target_step: 4, parameters: 1_340_000, device: "cpu" }),
  ...[4, 3, 2.5, 2].map((loss, i) =>
    line(
      "train_step",
      stepPayload(i + 1, { loss, grad_norm: 10 ** -i, step_s: 0.25, rss_bytes: 2 ** 20 * (i + 100) }),
    ),
  ),
  line("evaluation", { step: 2, loss: 2.75, perplexity: 15, tokens: 10 }),
  line("evaluation", { step: 4, loss: 2.25, perplexity: 9, tokens: 10 }),
  line("sample", { step: 4, prompt: "Call me ", text: "Ishmael" }),
  line("layer_norms", {
    step: 4,
    parameter: { "wte.weight": 2 },
    gradient: { "wte.weight": 0.5 },
    update: { "wte.weight": 0.01 },
  }),
  line("warning", { code: "data.short", message: "a short file" }),
  line("warning", { code: "data.short", message: "another" }),
  line("train_end", {
    steps: 4,
    loss: 2,
    reason: "target",
    times: { data: 1, graph: 6, optimizer: 2, other: 1 },
  }),
];

const render = (...runs: RunData[]): string =>
  renderReport(runs, { madeAt: new Date("2026-01-02T03:04:05Z") });

/** Fails unless every element is closed in order; gives the elements and the text. */
function parsePage(html: string): { tags: string[]; text: string; attributes: string[] } {
  const without = html.replace(/^<!doctype html>\n/, "");
  const empty = new Set(["meta", "line", "circle", "path", "br"]);
  const open: string[] = [];
  const tags: string[] = [];
  const attributes: string[] = [];
  let text = "";
  for (let at = 0; at < without.length; ) {
    const inside = open.at(-1);
    if (inside === "script" || inside === "style") {
      const end = without.indexOf(`</${inside}`, at);
      at = end;
    }
    if (without[at] !== "<") {
      const end = without.indexOf("<", at);
      text += without.slice(at, end < 0 ? undefined : end);
      at = end < 0 ? without.length : end;
      continue;
    }
    const match = /^<(\/?)([a-z0-9]+)((?:\s+[\w:-]+(?:="[^"<>]*")?)*)\s*(\/?)>/i.exec(
      without.slice(at, at + 40_000),
    );
    if (match === null) throw new Error(`no tag at ${without.slice(at, at + 80)}`);
    const [whole, slash, name = "", rest = ""] = match;
    at += whole.length;
    if (slash) {
      if (open.pop() !== name) throw new Error(`</${name}> closes nothing`);
      continue;
    }
    tags.push(name);
    attributes.push(rest);
    if (!empty.has(name)) open.push(name);
  }
  if (open.length > 0) throw new Error(`not closed: ${open.join(", ")}`);
  return { tags, text, attributes };
}

describe("reading", () => {
  it("takes a folder or a file, and calls a run by its folder", async () => {
    const path = writeRun("demo", wholeRun());
    const other = join(path, "other.jsonl");
    writeFileSync(other, line("train_step", stepPayload(1)));
    const run = await readRun(path);
    expect(run.label).toBe("demo");
    expect((await readRun(join(path, "metrics.jsonl"))).label).toBe("demo");
    expect((await readRun(other)).label).toBe("other");
    expect(run.curve("train/loss")).toEqual([
      { step: 1, value: 4 },
      { step: 2, value: 3 },
      { step: 3, value: 2.5 },
      { step: 4, value: 2 },
    ]);
    expect(run.warnings.get("data.short")).toMatchObject({ count: 2, message: "a short file" });
  });

  it("lets later lines count where steps were done again, also when fewer follow", async () => {
    const step = (n: number, loss: number) => line("train_step", stepPayload(n, { loss }));
    const path = writeRun("again", [
      line("train_start", { start_step: 0, target_step: 9 }),
      step(1, 5),
      step(2, 4),
      step(3, 99),
      line("train_start", { start_step: 1, target_step: 9 }),
      step(2, 3),
    ]);
    expect((await readRun(path)).curve("train/loss").map(({ value }) => value)).toEqual([5, 3]);
  });

  it("forgets an earlier run in the same file", async () => {
    const path = writeRun("anew", [...wholeRun(), ...wholeRun().slice(1, 3)]);
    const run = await readRun(path);
    expect(run.curve("train/loss")).toHaveLength(1);
    expect([run.samples.length, run.times.size, run.end]).toEqual([0, 0, undefined]);
  });

  it("takes no notice of a start that found nothing to train", async () => {
    const idle = [
      line("train_start", { start_step: 4, target_step: 4 }),
      line("train_end", { steps: 4, loss: null, reason: "target", times: { other: 9 } }),
    ];
    const run = await readRun(writeRun("idle", [...wholeRun(), ...idle]));
    expect([run.end?.loss, run.times.get("other"), run.start.parameters]).toEqual([2, 1, 1_340_000]);
  });

  it("reads values that JSON has no form for, and counts what it cannot read", async () => {
    const path = writeRun("odd", [
      line("train_step", stepPayload(1, { loss: Number.NaN, grad_norm: Number.POSITIVE_INFINITY })),
      '{"event":"train_st',
      "[1]",
    ]);
    const run = await readRun(path);
    expect(run.curve("train/loss")).toEqual([{ step: 1, value: Number.NaN }]);
    expect(run.curve("train/grad_norm")[0]!.value).toBe(Number.POSITIVE_INFINITY);
    expect(run.unreadable).toBe(2);
  });

  it("tells runs of one name apart, and says what is missing", async () => {
    const [a, b] = [writeRun("x/demo", wholeRun()), writeRun("y/demo", wholeRun())];
    expect((await readRuns([a, b])).map(({ label }) => label)).toEqual([a, b]);
    mkdirSync(join(folder, "empty"));
    await expect(readRun(join(folder, "empty"))).rejects.toMatchObject({
      code: "report.no_metrics",
      exitCode: 3,
    });
    await expect(readRun(join(folder, "none"))).rejects.toMatchObject({ code: "report.no_run" });
    writeFileSync(join(folder, "text.txt"), "no events\n");
    await expect(readRun(join(folder, "text.txt"))).rejects.toMatchObject({ code: "report.no_metrics" });
  });
});

describe("the page", () => {
  it("is whole HTML with every curve, sample, time, norm, setting and warning", async () => {
    const run = await readRun(writeRun("demo", wholeRun()));
    const html = render(run);
    const { tags, text } = parsePage(html);
    const titles = [...html.matchAll(/<figcaption>([^<]*)/g)].map(([, title]) => title);
    expect(titles).toEqual([
      "Training loss",
      "Validation loss",
      "Learning rate",
      "Throughput",
      "Gradient norm",
      "Time of a step",
      "Memory",
    ]);
    expect(tags.filter((tag) => tag === "svg")).toHaveLength(7);
    for (const part of [
      "4 of 4",
      "2.0000",
      "2.2500",
      "1.34M",
      "reached its target",
      "Ishmael",
      "commit abc123 on main, 2 changed files",
      "optimizer.lr: 0.001",
      "node: &quot;20&quot;",
      "60.0%",
      "wte.weight",
      "0.005",
      "a short file",
      "megabytes",
      "milliseconds",
      "nats per token",
    ])
      expect(text, part).toContain(part);
  });

  it("needs no other file and forbids loading any", async () => {
    const html = render(await readRun(writeRun("demo", wholeRun())));
    const { tags, attributes } = parsePage(html);
    expect(tags.filter((tag) => ["link", "img", "iframe", "a", "base", "object"].includes(tag))).toEqual([]);
    expect(attributes.filter((text) => /\b(?:src|href|srcset|on\w+)=/.test(text))).toEqual([]);
    expect(html).toContain("default-src 'none'");
    expect(html.replaceAll(/<style>[\s\S]*?<\/style>/g, "")).not.toMatch(/https?:|url\(|@import/);
    expect(html.match(/<style>[\s\S]*?<\/style>/)?.[0]).not.toMatch(/https?:|url\(|@import/);
  });

  it("keeps hostile texts harmless wherever they come from", async () => {
    const evil = `</script><script>alert(1)</script><img src=x onerror="alert(2)">'&`;
    const path = writeRun("demo", [
      line("run_info", {
        name: evil,
        config: { [evil]: evil },
        environment: { [evil]: evil },
        git: { commit: evil, branch: evil, changed_files: evil },
      }),
      line("train_start", { start_step: 0, target_step: evil, device: evil }),
      line("train_step", stepPayload(1)),
      line("evaluation", { step: 1, loss: 1, set: evil }),
      line("sample", { step: 1, prompt: evil, text: evil }),
      line("warning", { code: evil, message: evil }),
      line("layer_norms", {
        step: 1,
        parameter: { [evil]: 1 },
        gradient: { [evil]: 1 },
        update: { [evil]: 1 },
      }),
      line("train_end", { steps: 1, reason: evil, times: { [evil]: 1 } }),
    ]);
    const run = await readRun(path);
    run.label = evil;
    const html = render(run, run);
    const { tags, attributes } = parsePage(html);
    // Its own two: the data and the program.
    expect(tags.filter((tag) => tag === "script")).toHaveLength(2);
    expect(tags).not.toContain("img");
    expect(attributes.join(" ")).not.toContain('onerror="alert(2)"');
    const data = /<script type="application\/json" id="chart-data">([\s\S]*?)<\/script>/.exec(html)![1]!;
    const charts = Object.values(JSON.parse(data) as Record<string, { curves: { label: string }[] }>);
    expect(charts[0]!.curves.map(({ label }) => label)).toEqual([evil, evil]);
  });

  it("lays runs over one another, each in its colour, and lists the keys in which they differ", async () => {
    const runs = await readRuns([
      writeRun("a", wholeRun({ optimizer: { lr: 0.001, name: "adamw" }, run: { seed: 1 } })),
      writeRun("b", wholeRun({ optimizer: { lr: 0.01, name: "adamw" }, run: { seed: 1 } })),
    ]);
    const html = render(...runs);
    parsePage(html);
    const loss = /<svg[\s\S]*?<\/svg>/.exec(html)![0];
    expect([...loss.matchAll(/class="line (c\d)"/g)].map(([, color]) => color)).toEqual(["c0", "c1"]);
    const table = /Differences in configuration<\/h2>([\s\S]*?)<\/table>/.exec(html)![1]!;
    expect([...table.matchAll(/<code>([^<]*)<\/code>/g)].map(([, key]) => key)).toEqual(["optimizer.lr"]);
  });

  it("breaks a curve at a value that is not finite and draws a lone point as a dot", async () => {
    const values = [1, 2, Number.NaN, 3];
    const path = writeRun(
      "gap",
      values.map((loss, i) => line("train_step", stepPayload(i + 1, { loss }))),
    );
    const loss = /<svg[\s\S]*?<\/svg>/.exec(render(await readRun(path)))![0];
    expect(loss.match(/class="line /g)).toHaveLength(1);
    expect(loss.match(/class="dot /g)).toHaveLength(1);
    expect(loss).not.toContain("NaN");
  });

  it("of a run that has only begun says so", async () => {
    const html = render(await readRun(writeRun("new", wholeRun().slice(0, 2))));
    expect(parsePage(html).text).toContain("There is no completed step in the metrics.");
  });

  it("is of bounded size for long runs", async () => {
    const path = writeRun(
      "long",
      Array.from({ length: 20_000 }, (_, i) =>
        line("train_step", stepPayload(i + 1, { loss: 5 + Math.sin(i) })),
      ),
    );
    expect(render(await readRun(path)).length).toBeLessThan(250_000);
  });
});

describe("axes", () => {
  it.each([
    [
      [0, 4],
      [0, 1, 2, 3, 4],
    ],
    [
      [1.5, 5.6],
      [2, 3, 4, 5],
    ],
    [
      [3, 3],
      [2.8, 3, 3.2],
    ],
    [
      [1e-5, 3e-5],
      [1e-5, 1.5e-5, 2e-5, 2.5e-5, 3e-5],
    ],
  ])("of %j have round ticks inside", (values, wanted) => {
    const { ticks, min, max } = makeScale(values);
    expect(ticks.every((tick) => tick >= min && tick <= max)).toBe(true);
    for (const tick of wanted.slice(1, -1))
      expect(ticks.some((own) => Math.abs(own - tick) < 1e-9 * Math.abs(tick) + 1e-12)).toBe(true);
    expect(ticks.length).toBeLessThanOrEqual(8);
  });

  it("that are logarithmic leave out what has no logarithm", () => {
    const scale = makeScale([0, -1, 1e-3, 10], true);
    expect(scale.isLog).toBe(true);
    expect(scale.ticks).toEqual([1e-3, 0.01, 0.1, 1, 10].map((tick) => expect.closeTo(tick, 12)));
    expect(scale.place(0)).toBeNaN();
    expect(scale.place(0.1)).toBeCloseTo(0.5, 5);
  });

  it("exist without any value", () => {
    expect(makeScale([Number.NaN])).toMatchObject({ min: 0, max: 1 + 0.04 });
  });
});

describe("thinning", () => {
  const points = Array.from({ length: 10_000 }, (_, i) => ({ step: i, value: i === 7777 ? 1000 : i % 7 }));

  it("keeps extremes, order and ends of the range", () => {
    const thin = thinOut(points, 100);
    expect(thin.length).toBeLessThanOrEqual(100);
    expect(thin).toContainEqual({ step: 7777, value: 1000 });
    expect(thin.map(({ step }) => step)).toEqual(thin.map(({ step }) => step).sort((a, b) => a - b));
    expect(thin.at(-1)!.step).toBeGreaterThan(9800);
  });

  it("leaves short curves alone and keeps gaps", () => {
    expect(thinOut(points.slice(0, 50), 100)).toHaveLength(50);
    const broken = points.map((point) => (point.step === 5000 ? { ...point, value: Number.NaN } : point));
    expect(thinOut(broken, 100).filter(({ value }) => Number.isNaN(value))).toHaveLength(1);
  });
});
