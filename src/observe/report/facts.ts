// The tables of the report: what each run came to, what it was made of, and in what the runs differ.

import { formatCount, formatDuration, formatGeneral } from "../number-text.js";
import { escapeHtml, table } from "./html.js";
import type { RunData } from "./run-data.js";

type Plain = Readonly<Record<string, unknown>>;

const isPlain = (value: unknown): value is Plain =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const number = (value: unknown, format: (value: number) => string): string =>
  typeof value === "number" && Number.isFinite(value) ? escapeHtml(format(value)) : "–";

const loss = (value: number): string => value.toFixed(4);

export function runKey(color: number): string {
  return `<span class="key c${color % 8}"></span>`;
}

function bestOf(run: RunData, name: string): number | undefined {
  const values = run
    .curve(name)
    .map(({ value }) => value)
    .filter(Number.isFinite);
  return values.length === 0 ? undefined : values.reduce((a, b) => Math.min(a, b));
}

export function summaryTable(runs: readonly RunData[]): string {
  const rows = runs.map((run, index) => {
    const { start, end, info } = run;
    const losses = run.curve("train/loss");
    const validation = run.curveNames("validation/").find((name) => name.endsWith("/loss"));
    const { target_step: target } = start;
    const step = losses.at(-1)?.step ?? 0;
    return [
      `${runKey(index)}${escapeHtml(run.label)}`,
      escapeHtml(info.name ?? "–"),
      `${step}${typeof target === "number" ? ` of ${target}` : ""}`,
      number(losses.at(-1)?.value, loss),
      validation === undefined ? "–" : number(bestOf(run, validation), loss),
      number(run.last("train/tokens"), formatCount),
      number(
        run.last("train/tokens_per_sec_train") ?? run.last("train/tokens_per_sec"),
        (rate) => `${formatCount(rate)}/s`,
      ),
      number(start.parameters, formatCount),
      number(end?.elapsed_s, formatDuration),
      escapeHtml(end === undefined ? "not ended, or still running" : endText(end.reason)),
    ];
  });
  const head = [
    "Run",
    "Name",
    "Step",
    "Loss",
    "Best validation",
    "Tokens",
    "Speed",
    "Parameters",
    "Last fit took",
    "End",
  ];
  return table(head, rows);
}

function endText(reason: unknown): string {
  if (reason === undefined || reason === "target") return "reached its target";
  return reason === "error" ? "failed" : `stopped by ${String(reason)}`;
}

/** `a.b.c` and its value as JSON, of every key. */
function flatten(value: Plain, prefix = ""): [string, string][] {
  return Object.entries(value).flatMap(([key, inner]): [string, string][] =>
    isPlain(inner) && Object.keys(inner).length > 0
      ? flatten(inner, `${prefix}${key}.`)
      : [[`${prefix}${key}`, JSON.stringify(inner) ?? ""]],
  );
}

const section = (run: RunData, name: "config" | "environment" | "git"): Plain => {
  const value = run.info[name];
  return isPlain(value) ? value : {};
};

/** Keys of the configuration that are not the same in all runs; empty text where all are. */
export function differencesTable(runs: readonly RunData[]): string {
  if (runs.length < 2) return "";
  const flat = runs.map((run) => new Map(flatten(section(run, "config"))));
  const keys = [...new Set(flat.flatMap((entries) => [...entries.keys()]))];
  const rows = keys
    .filter((key) => new Set(flat.map((entries) => entries.get(key))).size > 1)
    .map((key) => [
      `<code>${escapeHtml(key)}</code>`,
      ...flat.map((entries) => escapeHtml(entries.get(key) ?? "–")),
    ]);
  if (rows.length === 0) return "<p>The configurations of these runs are the same.</p>";
  return table(["Key", ...runs.map((run, index) => `${runKey(index)}${escapeHtml(run.label)}`)], rows);
}

/** Configuration, environment and sources of one run. */
export function originOf(run: RunData): string {
  const lines = (value: Plain): string =>
    flatten(value)
      .map(([key, text]) => `${key}: ${text}`)
      .join("\n");
  const config = section(run, "config");
  const git = section(run, "git");
  const sources =
    typeof git.commit === "string"
      ? `commit ${git.commit}${git.branch ? ` on ${String(git.branch)}` : ""}, ${changes(git.changed_files)}`
      : "not in a git repository, or not known";
  const { time: _, run_id: __, elapsed_s: ___, ...start } = run.start;
  return [
    `<p>Run <code>${escapeHtml(run.runId || "–")}</code>, from <code>${escapeHtml(run.path)}</code><br>Sources: ${escapeHtml(sources)}</p>`,
    details("Configuration", lines(config) || "not in the metrics of this run"),
    details("Environment", lines(section(run, "environment")) || "not in the metrics of this run"),
    details("Start", lines(start) || "no start is in the metrics"),
  ].join("\n");
}

function changes(count: unknown): string {
  if (count === 0) return "no changes to tracked files";
  return `${String(count)} changed ${count === 1 ? "file" : "files"}`;
}

function details(title: string, text: string): string {
  return `<details><summary>${escapeHtml(title)}</summary><pre>${escapeHtml(text)}</pre></details>`;
}

const partNames: Readonly<Record<string, string>> = {
  data: "waiting for data",
  compile: "compiling",
  graph: "forward and backward",
  optimizer: "optimizer",
  sync: "exchange",
  evaluation: "evaluation",
  sample: "samples",
  checkpoint: "checkpoints",
  other: "other",
};

/** What the time went to: a bar and its numbers. */
export function timesOf(run: RunData): string {
  const parts = [...run.times].filter(([, seconds]) => seconds > 0);
  const total = parts.reduce((sum, [, seconds]) => sum + seconds, 0);
  if (total === 0) return '<p class="soft">Not known: the run has not ended.</p>';
  const order = Object.keys(partNames);
  const sorted = parts.sort(([a], [b]) => order.indexOf(a) - order.indexOf(b));
  const share = (seconds: number): string => `${((100 * seconds) / total).toFixed(1)}%`;
  const bar = sorted
    .map(
      ([, seconds], index) =>
        `<span class="key c${index % 8}" style="flex: ${formatGeneral(seconds)}"></span>`,
    )
    .join("");
  const rows = sorted.map(([part, seconds], index) => [
    `${runKey(index)}${escapeHtml(partNames[part] ?? part)}`,
    escapeHtml(formatDuration(seconds)),
    share(seconds),
  ]);
  return `<div class="bar">${bar}</div>${table(["Part", "Time", "Share"], rows)}`;
}

/** The newest norms, parameter by parameter. */
export function normsOf(run: RunData): string {
  const { layerNorms } = run;
  if (layerNorms === undefined) return "";
  const column = (key: string): Plain => (isPlain(layerNorms[key]) ? (layerNorms[key] as Plain) : {});
  const [parameter, gradient, update] = [column("parameter"), column("gradient"), column("update")];
  const general = (value: number): string => formatGeneral(value, 4);
  const rows = Object.keys(parameter).map((name) => {
    const [whole, change] = [parameter[name], update[name]];
    const ratio =
      typeof whole === "number" && typeof change === "number" && whole > 0 ? change / whole : undefined;
    return [
      `<code>${escapeHtml(name)}</code>`,
      number(whole, general),
      number(gradient[name], general),
      number(change, general),
      number(ratio, general),
    ];
  });
  const head = ["Parameter", "Norm", "Gradient", "Update", "Update / norm"];
  return `<p class="soft">L2 norms of update ${escapeHtml(layerNorms.step)}.</p>${table(head, rows)}`;
}
