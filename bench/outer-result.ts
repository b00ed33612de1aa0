// What the outer benchmark finds out, and how it is printed.

import { type Spread, spread } from "./stats.js";

/** What one process of either side prints. */
export interface Measured {
  readonly ms: number;
  readonly cpu_ms: number;
  readonly peak_mb: number;
  /** Python's search for values that are not finite, which its package does not make. */
  readonly finite_check_ms?: number;
  readonly versions: Readonly<Record<string, string>>;
}

interface Side {
  readonly ms: Spread;
  readonly cpuMs: Spread;
  readonly peakMb: Spread;
}

export interface Part {
  readonly rounds: number;
  readonly ours: Side;
  readonly python: Side | undefined;
  /** Python's median time over ours. */
  readonly ratio: number | undefined;
  readonly wantedRatio: number;
  /** Largest difference between the results of both sides. */
  readonly difference: number | undefined;
}

export interface OuterResult {
  readonly bench: "outer";
  readonly processor: string | undefined;
  readonly versions: Readonly<Record<string, string>>;
  readonly model: { readonly name: string; readonly parameters: number; readonly sizeBytes: number };
  readonly deltas: number;
  readonly threads: number;
  readonly compute: Part & {
    /** The ratio if Python did not look for values that are not finite. */
    readonly ratioWithoutCheck: number | undefined;
  };
  readonly round: Part & {
    /** Commits of one publication. */
    readonly commits: { readonly ours: number; readonly python: number | undefined };
    /** Requests of one idle poll of ours: method, path and status. */
    readonly idlePoll: readonly string[];
  };
  readonly skipped: readonly string[];
}

/** Peak memory over the size of the model. */
const MEMORY_LIMIT = 1.5;
const TOLERANCE = 1e-6;

export function partOf(
  ours: readonly Measured[],
  python: readonly Measured[],
  wantedRatio: number,
  difference: number | undefined,
): Part {
  const mine = sideOf(ours);
  const theirs = python.length === 0 ? undefined : sideOf(python);
  return {
    rounds: ours.length,
    ours: mine,
    python: theirs,
    ratio: theirs === undefined ? undefined : theirs.ms.median / mine.ms.median,
    wantedRatio,
    difference,
  };
}

function sideOf(runs: readonly Measured[]): Side {
  return {
    ms: spread(runs.map(({ ms }) => ms)),
    cpuMs: spread(runs.map(({ cpu_ms }) => cpu_ms)),
    peakMb: spread(runs.map(({ peak_mb }) => peak_mb)),
  };
}

export function formatOuter(result: OuterResult): string {
  const { model, compute, round, deltas, threads } = result;
  const versions = Object.entries(result.versions).map(([name, version]) => `${name} ${version}`);
  const gb = (model.sizeBytes / 1e9).toFixed(3);
  const lines = [
    `${result.processor}, ${threads} threads, ${versions.join(", ")}; ${deltas} deltas of ${model.name} (${model.parameters.toLocaleString("en")} float32 parameters, ${gb} GB each), files in the page cache; median (min–max)`,
    "",
    "| | ours | Python's speedtronic | Python / ours |",
    "|---|---|---|---|",
    ...rowsOf("mean, finite check, outer step", compute),
    ...rowsOf("a whole round over our hub", round),
    `| commits of a publication | ${round.commits.ours} | ${round.commits.python ?? ""} | |`,
    "",
    ...verdicts(result),
  ];
  for (const reason of result.skipped) lines.push("", `skipped ${reason}`);
  return lines.join("\n");
}

function rowsOf(title: string, { ours, python, ratio, rounds }: Part): string[] {
  const row = (name: string, pick: (side: Side) => Spread, last: string) =>
    `| ${name} | ${cell(pick(ours))} | ${python === undefined ? "" : cell(pick(python))} | ${last} |`;
  return [
    row(`${title}, ms (${rounds} runs each)`, ({ ms }) => ms, ratio?.toFixed(2) ?? ""),
    row("… processor time, ms", ({ cpuMs }) => cpuMs, ""),
    row("… peak memory, MB", ({ peakMb }) => peakMb, ""),
  ];
}

const cell = ({ median, min, max }: Spread) => `${median.toFixed(0)} (${min.toFixed(0)}–${max.toFixed(0)})`;

/** One line for each target: what was found, and whether that is enough. */
function verdicts({ model, compute, round }: OuterResult): string[] {
  const line = (isMet: boolean, text: string) => `- ${isMet ? "met" : "NOT MET"}: ${text}`;
  const lines: string[] = [];
  for (const [name, part] of Object.entries({ compute, round })) {
    const { ratio, wantedRatio, difference, ours } = part;
    if (ratio !== undefined)
      lines.push(line(ratio >= wantedRatio, `${name}: ${ratio.toFixed(2)} × faster, wanted ${wantedRatio}`));
    const models = (ours.peakMb.max * 1e6) / model.sizeBytes;
    const memory = `${name}: peak memory ${models.toFixed(2)} × one model, allowed ${MEMORY_LIMIT}`;
    lines.push(line(models <= MEMORY_LIMIT, memory));
    if (difference !== undefined)
      lines.push(
        line(
          difference <= TOLERANCE,
          `${name}: results differ by at most ${difference.toExponential(1)}, allowed ${TOLERANCE}`,
        ),
      );
  }
  if (compute.ratioWithoutCheck !== undefined)
    lines.push(
      `- compute without the finite check on Python's side: ${compute.ratioWithoutCheck.toFixed(2)} ×`,
    );
  lines.push(line(round.commits.ours === 1, `a publication is ${round.commits.ours} commit(s), wanted 1`));
  const isOne = round.idlePoll.length === 1 && round.idlePoll[0]!.endsWith(" 304");
  lines.push(line(isOne, `an idle poll: ${round.idlePoll.join("; ")}; wanted one request, answered 304`));
  return lines;
}
