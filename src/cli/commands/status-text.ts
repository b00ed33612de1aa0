// The report of `speedtronic status` as text and as JSON.

import type { Member, ReportedDelta, RunReport } from "../../distributed/node/run-report.js";
import { ORDERED_FROM } from "../../distributed/protocol/numbers.js";
import { formatCount, formatDuration, formatGeneral } from "../../observe/number-text.js";
import type { RunBudget } from "../../train/fleet/commit-budget.js";
import {
  type Column,
  formatBytes,
  formatFacts,
  formatTable,
  plural,
  shownName,
  wrapText,
} from "./ckpt/format.js";

export interface TextOptions {
  /** Columns to fill. */
  readonly width: number;
  readonly nowMs: number;
  /** Commits that a node allows itself within an hour: as the run is set up, or by default. */
  readonly budget: RunBudget;
  paint(style: "bold" | "yellow" | "gray", text: string): string;
}

/** Fates shown; JSON has all. */
const MOST_FATES = 10;
const MOST_NOTES = 10;

export function formatRunReport(report: RunReport, options: TextOptions): string {
  const { width, paint } = options;
  const { members, fates, notes } = report;
  const parts = [
    `${paint("bold", shownName(report.title))}\n${wrapFacts(summary(report, options), width)}`,
    members.length === 0 ? "no node has sent anything yet\n" : memberTable(members, report, options),
  ];
  if (fates.length > 0) parts.push(fateTable(report, options));
  for (const note of notes.slice(0, MOST_NOTES)) {
    parts.push(`${paint("yellow", wrapText(`note: ${shownName(note)}`, width, "  "))}\n`);
  }
  if (notes.length > MOST_NOTES)
    parts.push(`… and ${notes.length - MOST_NOTES} more notes (--json has all)\n`);
  return parts.join("\n");
}

function summary(
  { version, pending, commitsLastHour }: RunReport,
  { nowMs, budget }: TextOptions,
): (readonly [string, string])[] {
  const bytes = pending.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
  const nodes = new Set(pending.map(({ nodeId }) => nodeId)).size;
  const waiting =
    pending.length === 0
      ? "nothing"
      : `${plural(pending.length, "delta")} of ${plural(nodes, "node")}, ${formatBytes(bytes)}`;
  const facts: (readonly [string, string])[] = [];
  if (version === undefined)
    facts.push(["version", "none yet: nobody has published (speedtronic aggregate)"]);
  else {
    const { outerStep, updatedAt, master, hasLedger, deltas, outerLr, outerMomentum } = version;
    const made = deltas === undefined || deltas === 0 ? "" : `, from ${plural(deltas, "delta")}`;
    facts.push(["version", `${outerStep}, published ${ageText(updatedAt, nowMs)}${made}`]);
    facts.push([
      "master",
      master === undefined ? "without a name (Python)" : `${shownName(master.masterId)}, term ${master.term}`,
    ]);
    if (outerLr !== undefined && outerMomentum !== undefined)
      facts.push(["outer step", `lr ${formatGeneral(outerLr)}, momentum ${formatGeneral(outerMomentum)}`]);
    if (!hasLedger) facts.push(["ledger", "none: the master does not say what became of updates"]);
  }
  facts.push(["waiting", waiting]);
  if (commitsLastHour !== undefined)
    facts.push([
      "commits",
      `${commitsLastHour} in the last hour, all nodes together (${budget.isDefault ? "default " : ""}budget of each: ${budget.commitsPerHour})`,
    ]);
  return facts;
}

const memberColumns: readonly Column[] = [
  { title: "node", align: "left", isFlexible: true },
  { title: "last delta", align: "right" },
  { title: "base", align: "right" },
  { title: "behind", align: "right" },
  { title: "tokens", align: "right", rank: 2 },
  { title: "fate", align: "left", rank: 1 },
  { title: "waiting", align: "right", rank: 3 },
  { title: "counted", align: "right", rank: 5 },
  { title: "shards", align: "right", rank: 4 },
];

function memberTable(
  members: readonly Member[],
  { version }: RunReport,
  { width, paint }: TextOptions,
): string {
  const isUnknown = version !== undefined && !version.hasLedger;
  const rows = members.map(({ nodeId, lastDelta, staleness, pending, applied, shards }) => {
    const { facts, fate } = lastDelta ?? {};
    const base = facts === undefined ? "-" : facts.baseOuterStep < 0 ? "none" : String(facts.baseOuterStep);
    const decided = fate && `${fate.fate} in ${fate.outerStep}`;
    return [
      shownName(nodeId),
      lastDelta === undefined ? "gone" : deltaName(lastDelta),
      base,
      staleness === undefined ? "-" : String(staleness),
      facts?.tokens === undefined ? "-" : formatCount(facts.tokens),
      lastDelta === undefined ? "-" : (decided ?? (isUnknown ? "unknown" : "waiting")),
      String(pending),
      isUnknown ? "-" : String(applied),
      shards === undefined ? "-" : String(shards),
    ];
  });
  // A column that says nothing of anybody is left out.
  const used = memberColumns.map((_, i) => i < 4 || rows.some((row) => row[i] !== "-"));
  return formatTable(
    memberColumns.filter((_, i) => used[i]),
    rows.map((row) => row.filter((_, i) => used[i])),
    width,
    (text) => paint("gray", text),
  );
}

const fateColumns: readonly Column[] = [
  { title: "version", align: "right" },
  { title: "node", align: "left" },
  { title: "delta", align: "right" },
  { title: "fate", align: "left" },
  { title: "weight", align: "right", rank: 1 },
  { title: "reason", align: "left", isFlexible: true },
];

function fateTable({ fates }: RunReport, { width, paint }: TextOptions): string {
  const rows = fates
    .slice(0, MOST_FATES)
    .map(({ outerStep, nodeId, path, fate, weight, reason }) => [
      String(outerStep),
      shownName(nodeId),
      deltaName({ number: Number(/_([0-9]+)\.safetensors$/.exec(path)?.[1]) }),
      fate,
      weight === 0 ? "-" : formatGeneral(weight, 3),
      shownName(reason),
    ]);
  const hasReasons = rows.some((row) => row[5] !== '""');
  const columns = hasReasons ? fateColumns : fateColumns.slice(0, -1);
  const cells = rows.map((row) =>
    hasReasons ? row.map((cell) => (cell === '""' ? "" : cell)) : row.slice(0, -1),
  );
  return formatTable(columns, cells, width, (text) => paint("gray", text));
}

/** `#12`: the twelfth of a node's life; `step 500` for Python nodes, whose numbers are steps. */
function deltaName({ number }: Pick<ReportedDelta, "number">): string {
  return number >= ORDERED_FROM ? `#${Math.floor(number / ORDERED_FROM)}` : `step ${number}`;
}

function ageText(updatedAt: string, nowMs: number): string {
  const time = Date.parse(updatedAt);
  if (!Number.isFinite(time)) return "at an unknown time";
  // Clocks of other machines may be ahead.
  const seconds = (nowMs - time) / 1000;
  return seconds < 0 ? `at ${updatedAt} by its clock` : `${formatDuration(seconds)} ago`;
}

function wrapFacts(facts: readonly (readonly [string, string])[], width: number): string {
  const indent = Math.max(...facts.map(([label]) => label.length)) + 2;
  return formatFacts(
    facts.map(([label, text]) => [label, wrapText(text, width - indent, " ".repeat(indent))]),
  );
}

/** Snake case, as in the repository's own documents. */
export function plainReport(report: RunReport, { commitsPerHour }: RunBudget): Record<string, unknown> {
  const { title, revision, version, members, pending, fates, commitsLastHour, notes } = report;
  return {
    repository: title,
    revision,
    version:
      version === undefined
        ? null
        : {
            outer_step: version.outerStep,
            updated_at: version.updatedAt,
            master_id: version.master?.masterId ?? null,
            master_term: version.master?.term ?? null,
            has_ledger: version.hasLedger,
            deltas: version.deltas ?? null,
            outer_lr: version.outerLr ?? null,
            outer_momentum: version.outerMomentum ?? null,
          },
    members: members.map(({ nodeId, lastDelta, staleness, pending: waiting, applied, shards }) => ({
      node_id: nodeId,
      last_delta: lastDelta === undefined ? null : plainDelta(lastDelta),
      staleness: staleness ?? null,
      waiting,
      counted: applied,
      shards: shards ?? null,
    })),
    waiting: pending.map(plainDelta),
    fates: fates.map(({ path, nodeId, fate, outerStep, weight, reason }) => ({
      path,
      node_id: nodeId,
      fate,
      outer_step: outerStep,
      weight,
      reason,
    })),
    commits_last_hour: commitsLastHour ?? null,
    commits_per_hour: commitsPerHour,
    notes,
  };
}

function plainDelta({ path, nodeId, sizeBytes, facts, fate }: ReportedDelta): Record<string, unknown> {
  return {
    path,
    node_id: nodeId,
    size_bytes: sizeBytes,
    base_outer_step: facts?.baseOuterStep ?? null,
    tokens: facts?.tokens ?? null,
    steps: facts?.steps ?? null,
    fate: fate?.fate ?? null,
    outer_step: fate?.outerStep ?? null,
  };
}
