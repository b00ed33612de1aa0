// What the doctor finds: each finding says what is wrong, where, and what to do about it.

import { SpeedtronicError } from "../../util/errors.js";

export interface Finding {
  /** Problems stop a run, or make it useless; notes are worth knowing. */
  readonly severity: "problem" | "note";
  /** The check that found it. */
  readonly check: string;
  /** A key of the configuration, a path, or a repository. */
  readonly where: string;
  readonly what: string;
  /** What to do; empty where the text of `what` says it, or nothing need be done. */
  readonly action: string;
}

export interface CheckResult {
  readonly check: string;
  readonly status: "ok" | "problem" | "skipped";
  /** What was seen, or why it was skipped. */
  readonly detail: string;
}

export interface Diagnosis {
  readonly checks: readonly CheckResult[];
  readonly findings: readonly Finding[];
}

/** Gathers what one check finds. */
export class Findings {
  readonly all: Finding[] = [];

  constructor(private readonly check: string) {}

  problem(where: string, what: string, action: string): void {
    this.all.push({ severity: "problem", check: this.check, where, what, action });
  }

  note(where: string, what: string, action = ""): void {
    this.all.push({ severity: "note", check: this.check, where, what, action });
  }

  get hasProblem(): boolean {
    return this.all.some(({ severity }) => severity === "problem");
  }
}

/** Failures that are somebody's mistake or the system's refusal; a bug of ours passes through. */
export function isExpected(error: unknown): error is Error {
  if (error instanceof SpeedtronicError) return error.exitCode !== 70;
  return error instanceof Error && "syscall" in error && "code" in error;
}
