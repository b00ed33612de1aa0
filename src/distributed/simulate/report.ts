// What a simulation found, as data and as text.

import type { FaultName } from "./faults.js";
import type { InvariantName, Violation } from "./invariants.js";

export interface SimulationReport {
  readonly seed: number;
  readonly workers: number;
  readonly rounds: number;
  readonly faults: readonly FaultName[];
  /** Versions after the first one. */
  readonly versions: number;
  /** Deltas that the repository took, by what became of them. */
  readonly fates: Readonly<Record<string, number>>;
  /** By the code of the reason. */
  readonly refusals: Readonly<Record<string, number>>;
  readonly localSteps: number;
  /** Local steps of processes that died before they were in a checkpoint or a delta. */
  readonly lostSteps: number;
  readonly workerCrashes: number;
  readonly masterCrashes: number;
  /** Masters that slept through their replacement. */
  readonly masterSuspensions: number;
  /** Requests that were spoiled, by fault. */
  readonly injected: Readonly<Record<string, number>>;
  readonly commits: number;
  readonly simulatedMs: number;
  readonly events: number;
  /** SHA-256 of the log of all events: the same seed and options give the same. */
  readonly logSha256: string;
  readonly violations: readonly Violation[];
}

/** A few lines for people. */
export function formatReport(report: SimulationReport): string {
  const { fates, refusals, violations, injected } = report;
  const lines = [
    `seed ${report.seed}: ${report.workers} workers, ${report.versions} versions in ${(report.simulatedMs / 60_000).toFixed(1)} simulated minutes`,
    `  deltas    ${listed(fates)}${Object.keys(refusals).length === 0 ? "" : ` (refused: ${listed(refusals)})`}`,
    `  steps     ${report.localSteps} local steps, ${report.lostSteps} lost with processes that died`,
    `  crashes   ${report.workerCrashes} of workers, ${report.masterCrashes} of the master, ${report.masterSuspensions} masters asleep`,
    `  faults    ${listed(injected) || "none"} in ${report.commits} commits`,
    `  log       ${report.events} events, SHA-256 ${report.logSha256.slice(0, 16)}`,
    violations.length === 0
      ? "  all invariants hold"
      : `  ${violations.length} VIOLATIONS, the first after ${(violations[0]!.atMs / 1000).toFixed(1)} s: ${formatViolation(violations[0]!)}`,
  ];
  return `${lines.join("\n")}\n`;
}

export function formatViolation({ invariant, message }: Violation): string {
  return `[${invariant satisfies InvariantName}] ${message}`;
}

/** The command that does the same again. */
export function replayCommand(
  { seed, workers, rounds, faults }: SimulationReport,
  allFaults: number,
): string {
  const names = faults.length === 0 ? "none" : faults.length === allFaults ? "all" : faults.join(",");
  return `speedtronic simulate --workers ${workers} --rounds ${rounds} --seed ${seed} --faults ${names}`;
}

function listed(counts: Readonly<Record<string, number>>): string {
  return Object.entries(counts)
    .map(([name, number]) => `${number} ${name}`)
    .join(", ");
}
