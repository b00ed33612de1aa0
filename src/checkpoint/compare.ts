// Does a checkpoint fit the run that wants to continue it? Differences field by field, in words. Decides nothing
// but one thing: a model that differs is refused, since its tensors would mean something else.

import { CheckpointError } from "../util/errors.js";
import type { Environment, Fingerprint } from "./content.js";

export interface Difference {
  /** Dotted path such as `n_head` or `rope.base`. */
  readonly field: string;
  /** `undefined` where that side lacks the field. */
  readonly saved: unknown;
  readonly current: unknown;
}

/** Fields whose values differ, sorted by name; mappings are entered, lists compared as a whole. */
export function explainDifferences(
  saved: Readonly<Record<string, unknown>>,
  current: Readonly<Record<string, unknown>>,
): Difference[] {
  const [left, right] = [flatten(saved), flatten(current)];
  const fields = [...new Set([...left.keys(), ...right.keys()])].sort();
  return fields
    .map((field) => ({ field, saved: left.get(field), current: right.get(field) }))
    .filter((difference) => textOf(difference.saved) !== textOf(difference.current));
}

/** The differences by part. Those of `model` forbid a resume; those of data and optimizer are to be reported. */
export function compareFingerprints(
  saved: Fingerprint,
  current: Fingerprint,
): Record<keyof Fingerprint, Difference[]> {
  return {
    model: explainDifferences(saved.model, current.model),
    data: explainDifferences(saved.data, current.data),
    optimizer: explainDifferences(saved.optimizer, current.optimizer),
  };
}

/** `n_head: saved 4, now 8` */
export function describeDifference(difference: Difference): string {
  return `${difference.field}: saved ${textOf(difference.saved)}, now ${textOf(difference.current)}`;
}

/** Throws CheckpointError `checkpoint.model_differs` listing every differing field. */
export function requireSameModel(
  saved: Readonly<Record<string, unknown>>,
  current: Readonly<Record<string, unknown>>,
  path: string,
): void {
  const differences = explainDifferences(saved, current);
  if (differences.length === 0) return;
  throw new CheckpointError(
    `${path}: the checkpoint is of another model than the configuration describes: ` +
      `${differences.map(describeDifference).join("; ")}. Set these back, or start a new run in another output folder`,
    { code: "checkpoint.model_differs", details: { path, differences } },
  );
}

/** Sentences for a resume on other hardware or software; empty if the bits must come out the same. */
export function environmentNotes(saved: Environment, current: Environment): string[] {
  return explainDifferences({ ...saved }, { ...current }).map(
    ({ field, saved: before, current: now }) =>
      `${environmentNames[field as keyof Environment] ?? field} changed from ${textOf(before)} to ${textOf(now)}: ` +
      "results may differ in their last bits from those of an uninterrupted run",
  );
}

const environmentNames: Readonly<Record<keyof Environment, string>> = {
  threads: "the thread count",
  cpu: "the CPU",
  cpuFeatures: "the set of CPU features",
  node: "the Node.js version",
  library: "the library version",
  platform: "the platform",
  onnxruntime: "the onnxruntime version",
};

function flatten(value: Readonly<Record<string, unknown>>, prefix = ""): Map<string, unknown> {
  const fields = new Map<string, unknown>();
  for (const [key, member] of Object.entries(value)) {
    if (isMapping(member) && Object.keys(member).length > 0) {
      for (const [field, inner] of flatten(member, `${prefix}${key}.`)) fields.set(field, inner);
    } else if (member !== undefined) {
      fields.set(prefix + key, member);
    }
  }
  return fields;
}

function isMapping(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function textOf(value: unknown): string {
  if (value === undefined) return "nothing";
  // JSON would show NaN and infinities as null.
  return typeof value === "number" ? String(value) : JSON.stringify(value);
}
