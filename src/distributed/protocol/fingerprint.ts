// What two models must have in common to exchange updates, and is not visible in names and shapes: plain fields, one
// text for one fingerprint, and a comparison that names the fields.

import { parseForeignJson } from "../../util/json-depth.js";
import { encodePythonJson, type JsonValue } from "../wire/python-json.js";

/** Fields by name; values of any depth. */
export type ModelFingerprint = Readonly<Record<string, JsonValue>>;

const MAX_SHOWN = 80;
const MAX_FIELDS = 8;

/** On one line, keys sorted at every level, so that equal fingerprints have equal texts. */
export function fingerprintText(fingerprint: ModelFingerprint): string {
  return JSON.stringify(JSON.parse(encodePythonJson(fingerprint)));
}

/** The fingerprint in a text of a peer; undefined when it is none. */
export function parseFingerprint(text: string): ModelFingerprint | undefined {
  try {
    const value = parseForeignJson(text);
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? (value as ModelFingerprint)
      : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Every difference, one sentence each, by field name; empty when they agree. A field that only one side has counts
 * only if `ignoreMissing` is false: programs of different age know different fields.
 */
export function fingerprintDifferences(
  ours: ModelFingerprint,
  theirs: ModelFingerprint,
  { ignoreMissing = true }: { readonly ignoreMissing?: boolean } = {},
): string[] {
  const names = [...new Set([...Object.keys(ours), ...Object.keys(theirs)])].sort();
  const differences: string[] = [];
  for (const name of names) {
    const [a, b] = [own(ours, name), own(theirs, name)];
    if (ignoreMissing && (a === undefined || b === undefined)) continue;
    const [textA, textB] = [shown(a), shown(b)];
    if (canonical(a) !== canonical(b)) differences.push(`${name} is ${textB}, this run has ${textA}`);
  }
  const extra = differences.length - MAX_FIELDS;
  return extra > 0 ? [...differences.slice(0, MAX_FIELDS), `and ${extra} more`] : differences;
}

const own = (fields: ModelFingerprint, name: string) =>
  Object.hasOwn(fields, name) ? fields[name] : undefined;

const canonical = (value: JsonValue | undefined) => (value === undefined ? "" : encodePythonJson(value));

function shown(value: JsonValue | undefined): string {
  if (value === undefined) return "nothing";
  const text = JSON.stringify(value);
  return text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…` : text;
}
