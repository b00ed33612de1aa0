// The report as one HTML page that needs nothing else: no network, no other file. Every text from a run is escaped,
// and the page itself forbids loading anything.

import { type Chart, type ChartSpec, type Curve, drawChart } from "./chart.js";
import { differencesTable, normsOf, originOf, runKey, summaryTable, timesOf } from "./facts.js";
import { embedJson, escapeHtml, table } from "./html.js";
import type { RunData } from "./run-data.js";
import { script } from "./script.js";
import { style } from "./style.js";

interface CurveSpec extends ChartSpec {
  /** Names of curves; the first that a run has is drawn. */
  readonly names: readonly string[];
}

const charts: readonly CurveSpec[] = [
  { title: "Training loss", unit: "nats per token", names: ["train/loss"] },
  { title: "Learning rate", unit: "rate", names: ["train/lr"] },
  {
    title: "Throughput",
    unit: "tokens per second",
    names: ["train/tokens_per_sec_train", "train/tokens_per_sec"],
  },
  { title: "Gradient norm", unit: "L2 norm", isLog: true, names: ["train/grad_norm"] },
  { title: "Time of a step", unit: "milliseconds", factor: 1000, isLog: true, names: ["train/step_s"] },
  { title: "Memory", unit: "megabytes", factor: 2 ** -20, names: ["train/rss_bytes"] },
];

export interface PageOptions {
  /** Shown in the head of the page. */
  readonly madeAt: Date;
}

export function renderReport(runs: readonly RunData[], { madeAt }: PageOptions): string {
  const drawn = drawAll(runs);
  const names = runs.map(({ label }) => label).join(", ");
  const each = (heading: string, render: (run: RunData) => string): string => {
    const parts = runs
      .map((run, index) => ({ run, index, html: render(run) }))
      .filter(({ html }) => html !== "")
      .map(({ run, index, html }) => `<h3>${runKey(index)}${escapeHtml(run.label)}</h3>\n${html}`);
    return parts.length === 0 ? "" : `<h2>${escapeHtml(heading)}</h2>\n${parts.join("\n")}`;
  };
  const differences = differencesTable(runs);
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>${escapeHtml(names)} – Speedtronic</title>
<style>${style}</style>
</head>
<body>
<h1>${escapeHtml(names)}</h1>
<p class="soft">Speedtronic report of ${escapeHtml(madeAt.toISOString().slice(0, 16).replace("T", " "))} UTC</p>
${summaryTable(runs)}
<h2>Curves</h2>
<div class="charts">
${drawn.map(({ chart }) => chart.html).join("\n") || "<p>There is no completed step in the metrics.</p>"}
</div>
${differences === "" ? "" : `<h2>Differences in configuration</h2>\n${differences}`}
${each("Where the time went", timesOf)}
${each("Samples", samplesOf)}
${each("Norms by parameter", normsOf)}
${each("Warnings", warningsOf)}
${each("Where the numbers come from", originOf)}
<script type="application/json" id="chart-data">${embedJson(Object.fromEntries(drawn.map(({ id, chart }) => [id, chart.data])))}</script>
<script>${script}</script>
</body>
</html>
`;
}

function drawAll(runs: readonly RunData[]): { id: string; chart: Chart }[] {
  const [loss, ...others] = charts.map((spec) => ({ spec, curves: curvesOf(runs, spec.names) }));
  const ordered = [loss!, ...validationCharts(runs), ...others];
  return ordered.flatMap(({ spec, curves }, index) => {
    const id = `chart-${index}`;
    const chart = drawChart(id, spec, curves);
    return chart === undefined ? [] : [{ id, chart }];
  });
}

function curvesOf(runs: readonly RunData[], names: readonly string[]): Curve[] {
  return runs.map((run, color) => {
    const name = names.find((candidate) => run.curve(candidate).length > 0);
    return { label: run.label, color, points: name === undefined ? [] : run.curve(name) };
  });
}

/** One for each set of held-out data that any run has. */
function validationCharts(runs: readonly RunData[]): { spec: ChartSpec; curves: Curve[] }[] {
  const names = new Set(
    runs.flatMap((run) => run.curveNames("validation/").filter((name) => name.endsWith("/loss"))),
  );
  return [...names].map((name) => {
    const set = name.split("/").slice(1, -1).join("/");
    const title = set === "" ? "Validation loss" : `Validation loss: ${set}`;
    return { spec: { title, unit: "nats per token" }, curves: curvesOf(runs, [name]) };
  });
}

function samplesOf(run: RunData): string {
  return [...run.samples]
    .reverse()
    .map(
      ({ step, prompt, text }) =>
        `<p class="soft">step ${escapeHtml(step)}</p><pre><span class="prompt">${escapeHtml(prompt)}</span>${escapeHtml(text)}</pre>`,
    )
    .join("\n");
}

function warningsOf(run: RunData): string {
  const rows = [...run.warnings.values()].map(({ code, message, count }) => [
    `<code>${escapeHtml(code)}</code>`,
    String(count),
    escapeHtml(message),
  ]);
  const broken =
    run.unreadable > 0 ? `<p>${run.unreadable} lines of the metrics file could not be read.</p>` : "";
  return `${broken}${rows.length === 0 ? "" : table(["Code", "Times", "First message"], rows)}`;
}
