// Loading a state dict: everything is compared first, then copied. Knows nothing of files.

import { isFloating, type Parameter, type TensorData } from "../tensor/index.js";
import { ModelError } from "../util/errors.js";
import type { Buffer } from "./module.js";
import { suggestion } from "./near-miss.js";

/** One name of a saved tensor, and the object that holds its values. */
export interface StateEntry {
  readonly name: string;
  readonly owner: Parameter | Buffer;
}

export interface LoadOptions {
  /** Default true: whatever does not fit is an error. False loads what fits and reports the rest. */
  strict?: boolean;
}

export interface Mismatch {
  readonly name: string;
  /** Such as `float32[8, 4]`. */
  readonly expected: string;
  readonly found: string;
}

export interface LoadReport {
  /** Names whose values were copied, in the module's order. */
  readonly loaded: readonly string[];
  /** Names of the module without any value (a tied tensor only when all its names are absent). */
  readonly missing: readonly string[];
  /** Names that the module does not have. */
  readonly unexpected: readonly string[];
  /** Names whose shape or dtype differs. */
  readonly mismatched: readonly Mismatch[];
}

export function loadInto(
  entries: readonly StateEntry[],
  state: ReadonlyMap<string, TensorData>,
  { strict = true }: LoadOptions,
): LoadReport {
  const mismatched: Mismatch[] = [];
  const chosen = new Map<StateEntry["owner"], { name: string; value: TensorData }>();
  const loaded: string[] = [];

  for (const { name, owner } of entries) {
    const value = state.get(name);
    if (value === undefined) continue;
    if (!fits(owner, value)) {
      mismatched.push({ name, expected: describe(targetOf(owner)), found: describe(value) });
      continue;
    }
    const earlier = chosen.get(owner);
    if (earlier && !sameValues(earlier.value, value)) throw conflict(earlier.name, name);
    if (!earlier) chosen.set(owner, { name, value });
    loaded.push(name);
  }
  const present = new Set(entries.filter(({ name }) => state.has(name)).map(({ owner }) => owner));
  const missing = entries.filter(({ owner }) => !present.has(owner)).map(({ name }) => name);
  const names = new Set(entries.map(({ name }) => name));
  const unexpected = [...state.keys()].filter((name) => !names.has(name));

  const report: LoadReport = { loaded, missing, unexpected, mismatched };
  if (strict && missing.length + unexpected.length + mismatched.length > 0) throw refusal(report, names);
  for (const [owner, { value }] of chosen) targetOf(owner).data.set(value.data);
  return report;
}

function targetOf(owner: StateEntry["owner"]): TensorData {
  return "value" in owner ? owner.value : owner.toData();
}

function fits(owner: StateEntry["owner"], value: TensorData): boolean {
  const target = targetOf(owner);
  const sameDtype = value.dtype === target.dtype || (!("value" in owner) && isFloating(value.dtype));
  return (
    sameDtype &&
    value.shape.length === target.shape.length &&
    value.shape.every((extent, axis) => extent === target.shape[axis]) &&
    value.data.length === target.data.length
  );
}

function sameValues(a: TensorData, b: TensorData): boolean {
  if (a === b || a.data === b.data) return true;
  return a.data.every((x, i) => x === b.data[i] || (Number.isNaN(x) && Number.isNaN(b.data[i])));
}

function describe({ dtype, shape }: TensorData): string {
  return `${dtype}[${shape.join(", ")}]`;
}

function conflict(first: string, second: string): ModelError {
  return new ModelError(
    `"${first}" and "${second}" are one tied tensor of this model, but the state dict gives them different values: ` +
      "remove one of them, or build the model without tied weights",
    { code: "model.tied_values_differ", details: { names: [first, second] } },
  );
}

function refusal(report: LoadReport, names: ReadonlySet<string>): ModelError {
  const lines = [
    ...list("missing", report.missing),
    ...list(
      "unexpected",
      report.unexpected.map((name) => name + suggestion(name, names)),
    ),
    ...list(
      "mismatched",
      report.mismatched.map(
        ({ name, expected, found }) => `${name}: model has ${expected}, state dict ${found}`,
      ),
    ),
  ];
  return new ModelError(`the state dict does not fit the model; nothing was loaded\n${lines.join("\n")}`, {
    code: "model.state_dict",
    details: { missing: report.missing, unexpected: report.unexpected, mismatched: report.mismatched },
  });
}

/** At most ten names: a wholly different model would fill the screen. */
function list(title: string, names: readonly string[]): string[] {
  if (names.length === 0) return [];
  const more = names.length > 10 ? [`  … and ${names.length - 10} more`] : [];
  return [`${title} (${names.length}):`, ...names.slice(0, 10).map((name) => `  ${name}`), ...more];
}
