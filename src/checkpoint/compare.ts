// Does a checkpoint fit the run that wants to continue it? Differences field by field, in words. A model or a node
// that differs is refused unless the difference is named: its tensors, or its place among others, would mean something else.

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

/** The differences by part. Those of `model` and `distributed` forbid a resume; the others are to be reported. */
export function compareFingerprints(
  saved: Fingerprint,
  current: Fingerprint,
): Record<keyof Fingerprint, Difference[]> {
  // A side that says nothing about its node is not compared: there was none, or the format had no place for it.
  const hasNodes = saved.distributed !== undefined && current.distributed !== undefined;
  // Likewise a part in which nothing was saved, as the data of an imported checkpoint.
  const explain = (part: "data" | "optimizer") =>
    Object.keys(saved[part]).length === 0 ? [] : explainDifferences(saved[part], current[part]);
  return {
    model: explainDifferences(saved.model, current.model),
    data: explain("data"),
    optimizer: explain("optimizer"),
    distributed: hasNodes ? explainDifferences(saved.distributed, current.distributed) : [],
  };
}

/** `n_head: saved 4, now 8` */
export function describeDifference(difference: Difference): string {
  return `${difference.field}: saved ${textOf(difference.saved)}, now ${textOf(difference.current)}`;
}

/**
 * Throws CheckpointError `checkpoint.model_differs` listing every differing field that `accept` does not name.
 * Returns the accepted ones.
 */
export function requireSameModel(
  saved: Readonly<Record<string, unknown>>,
  current: Readonly<Record<string, unknown>>,
  path: string,
  accept: readonly string[] = [],
): Difference[] {
  return refuseUnaccepted(explainDifferences(saved, current), "model", path, accept);
}

export interface Judgement {
  /** Differences of the parts that forbid a resume, let through by name. */
  readonly accepted: readonly Difference[];
  /** All that is worth telling, one sentence each. */
  readonly notes: readonly string[];
}

/**
 * May a run described by `current` continue the checkpoint `info`? Fields are named as the messages show them
 * (`n_head`, `distributed.role`); a name stands for all fields below it.
 *
 * @throws CheckpointError `checkpoint.model_differs`, `checkpoint.node_differs`
 */
export function judgeResume(
  info: { readonly path: string; readonly manifest: { readonly formatVersion: number } },
  saved: Fingerprint,
  current: Fingerprint,
  accept: readonly string[] = [],
): Judgement {
  const differences = compareFingerprints(saved, current);
  const model = differences.model.filter(
    ({ field, saved: before }) =>
      !(info.manifest.formatVersion < 2 && before === undefined && isSecondFormatField(field)),
  );
  const node = differences.distributed.map((d) => ({ ...d, field: `distributed.${d.field}` }));
  const accepted = [
    ...refuseUnaccepted(model, "model", info.path, accept),
    ...refuseUnaccepted(node, "node", info.path, accept),
  ];
  const used = (name: string) => accepted.some(({ field }) => accepts(name, field));
  return {
    accepted,
    notes: [
      ...accepted.map(
        (d) => `${describeDifference(d)}; accepted, the configuration's value is used from here on`,
      ),
      ...(["data", "optimizer"] as const).flatMap((part) =>
        differences[part].map(
          (d) => `${part}.${describeDifference(d)}; the configuration's value is used from here on`,
        ),
      ),
      ...accept.filter((name) => !used(name)).map((name) => `${name}: accepted as different, but it is not`),
    ],
  };
}

/** Fields of the model's fingerprint that checkpoints of the first format do not have. */
function isSecondFormatField(field: string): boolean {
  return ["dtype", "layout", "tied", "tokenizer"].some((name) => accepts(name, field));
}

function accepts(name: string, field: string): boolean {
  const plain = name.replace(/^model\./, "");
  return field === plain || field.startsWith(`${plain}.`);
}

const refusals = {
  model: {
    code: "checkpoint.model_differs",
    what: "the checkpoint is of another model than the configuration describes",
  },
  node: {
    code: "checkpoint.node_differs",
    what: "the checkpoint is of another node than the configuration describes",
  },
} as const;

function refuseUnaccepted(
  all: readonly Difference[],
  kind: keyof typeof refusals,
  path: string,
  accept: readonly string[],
): Difference[] {
  const isAccepted = ({ field }: Difference) => accept.some((name) => accepts(name, field));
  const differences = all.filter((difference) => !isAccepted(difference));
  if (differences.length === 0) return all.filter(isAccepted);
  const { code, what } = refusals[kind];
  throw new CheckpointError(
    `${path}: ${what}: ${differences.map(describeDifference).join("; ")}. Set these back, start a new run in ` +
      "another output folder, or, if the run is meant to go on with the difference, name it with --accept-difference",
    { code, details: { path, differences } },
  );
}

/**
 * Sentences for a resume on other hardware or software; empty if the bits must come out the same. A checkpoint of
 * another program (its `node` is "none") has no bits to be compared with.
 */
export function environmentNotes(saved: Environment, current: Environment): string[] {
  if (saved.node === "none") return [];
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
