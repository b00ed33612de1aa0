// Does a set of tensors fit a model? Compares names, shapes and dtypes; strict unless a pattern allows a difference,
// and the report always says all of it. Pure: reads no values and loads nothing.

import { listed, nameError } from "./errors.js";

/** Patterns over names, in which `*` stands for any text. What matches is allowed and reported. */
export interface LoadPolicy {
  /** Model tensors that may stay at their initial values. */
  readonly allowMissing?: readonly string[];
  /** Tensors of the file that nobody needs. */
  readonly allowUnexpected?: readonly string[];
  /** Tensors of another shape or dtype: the model's stay at their initial values. */
  readonly allowMismatch?: readonly string[];
}

export interface TensorShape {
  readonly dtype: string;
  readonly shape: readonly number[];
}

/** One tensor of a model, with all names under which it is known: more than one where it is tied. */
export interface ExpectedTensor extends TensorShape {
  readonly names: readonly string[];
  /** Default: the dtypes are equal. */
  readonly accepts?: (dtype: string) => boolean;
}

export interface MismatchedTensor {
  readonly name: string;
  /** Such as `float32[8, 4]`. */
  readonly expected: string;
  readonly found: string;
}

export interface FitReport {
  /** Names whose values are to be loaded, in the model's order. */
  readonly loaded: readonly string[];
  /** Names of the model without a value (a tied tensor only when all its names are absent). */
  readonly missing: readonly string[];
  readonly unexpected: readonly string[];
  readonly mismatched: readonly MismatchedTensor[];
  /** Names of the model that keep their initial values, because the policy allows it. */
  readonly initial: readonly string[];
  /** What changed its name on the way. */
  readonly renamed: readonly { readonly from: string; readonly to: string }[];
  /** Patterns that allowed nothing: perhaps misspelt. */
  readonly unusedPatterns: readonly string[];
}

/**
 * Compares and judges. `found` has the names after all renaming; `renamed` goes into the report.
 *
 * @throws CheckpointError `checkpoint.does_not_fit` with the whole report as `details.report`.
 */
export function checkFit(
  expected: readonly ExpectedTensor[],
  found: ReadonlyMap<string, TensorShape>,
  policy: LoadPolicy = {},
  renamed: FitReport["renamed"] = [],
): FitReport {
  const loaded: string[] = [];
  const missing: string[] = [];
  const mismatched: MismatchedTensor[] = [];
  const initial: string[] = [];
  for (const tensor of expected) {
    const present = tensor.names.filter((name) => found.has(name));
    if (present.length === 0) missing.push(...tensor.names);
    let isLoaded = false;
    for (const name of present) {
      if (fits(tensor, found.get(name)!)) {
        loaded.push(name);
        isLoaded = true;
      } else mismatched.push({ name, expected: textOf(tensor), found: textOf(found.get(name)!) });
    }
    if (!isLoaded) initial.push(...tensor.names);
  }
  const known = new Set(expected.flatMap(({ names }) => names));
  const unexpected = [...found.keys()].filter((name) => !known.has(name));

  const allow = {
    missing: new Patterns("allow-missing", policy.allowMissing),
    unexpected: new Patterns("allow-unexpected", policy.allowUnexpected),
    mismatch: new Patterns("allow-mismatch", policy.allowMismatch),
  };
  const refused = {
    missing: missing.filter((name) => !allow.missing.allows(name)),
    unexpected: unexpected.filter((name) => !allow.unexpected.allows(name)),
    mismatched: mismatched.filter(({ name }) => !allow.mismatch.allows(name)),
  };
  const unusedPatterns = Object.values(allow).flatMap((patterns) => patterns.unused());
  const report: FitReport = { loaded, missing, unexpected, mismatched, initial, renamed, unusedPatterns };
  if (Object.values(refused).every((names) => names.length === 0)) return report;
  throw nameError(
    "does_not_fit",
    [
      "the tensors do not fit the model; nothing was loaded",
      ...listed("missing", refused.missing),
      ...listed("unexpected", refused.unexpected),
      ...listed("mismatched", refused.mismatched.map(mismatchText)),
      "Rename them, or allow what is meant by a pattern",
    ].join("\n"),
    { ...refused, report },
  );
}

/** The report in words, one fact a line. */
export function formatReport(report: FitReport): string {
  return [
    `tensors loaded: ${report.loaded.length}`,
    ...listed(
      "renamed",
      report.renamed.map(({ from, to }) => `${from} → ${to}`),
    ),
    ...listed("missing, allowed", report.missing),
    ...listed("unexpected, left out", report.unexpected),
    ...listed("mismatched, left out", report.mismatched.map(mismatchText)),
    ...listed("left at their initial values", report.initial),
    ...listed("patterns that allowed nothing", report.unusedPatterns),
  ].join("\n");
}

/** The one pattern language of load policies: `*` is any text, all else is meant literally. */
export function matchesPattern(pattern: string, name: string): boolean {
  const literals = pattern.split("*").map((text) => text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&"));
  return new RegExp(`^${literals.join(".*")}$`, "su").test(name);
}

class Patterns {
  readonly #used = new Set<string>();

  constructor(
    private readonly option: string,
    private readonly patterns: readonly string[] = [],
  ) {}

  allows(name: string): boolean {
    const matching = this.patterns.filter((pattern) => matchesPattern(pattern, name));
    for (const pattern of matching) this.#used.add(pattern);
    return matching.length > 0;
  }

  unused(): string[] {
    return this.patterns
      .filter((pattern) => !this.#used.has(pattern))
      .map((pattern) => `${this.option} ${pattern}`);
  }
}

function fits({ dtype, shape, accepts }: ExpectedTensor, found: TensorShape): boolean {
  const isDtypeRight = accepts ? accepts(found.dtype) : found.dtype === dtype;
  return (
    isDtypeRight &&
    found.shape.length === shape.length &&
    shape.every((extent, i) => extent === found.shape[i])
  );
}

function textOf({ dtype, shape }: TensorShape): string {
  return `${dtype}[${shape.join(", ")}]`;
}

function mismatchText({ name, expected, found }: MismatchedTensor): string {
  return `${name}: model has ${expected}, the file ${found}`;
}
