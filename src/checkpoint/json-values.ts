// Plain values to JSON text and back without loss. JSON has no NaN, infinity or -0 and JSON.stringify turns them
// into null or 0 silently; here they become {"$number": "NaN"} and so on. What cannot come back is refused.

import { CheckpointError } from "../util/errors.js";

const TAG = "$number";

/** JSON text (indent 2, final newline) of plain data. `what` names the value in error messages. */
export function encodeJson(value: unknown, what: string): string {
  return `${JSON.stringify(encodeValue(value, what, new Set()), null, 2)}\n`;
}

/** The inverse of {@link encodeJson}. Throws SyntaxError for text that is not JSON. */
export function decodeJson(text: string): unknown {
  return decodeValue(JSON.parse(text));
}

function encodeValue(value: unknown, path: string, ancestors: Set<object>): unknown {
  if (value === null || typeof value === "string" || typeof value === "boolean") return value;
  if (typeof value === "number") {
    if (Number.isFinite(value) && !Object.is(value, -0)) return value;
    return { [TAG]: Object.is(value, -0) ? "-0" : String(value) };
  }
  if (typeof value !== "object") throw notPlain(path, `a ${typeof value}`);
  if (ancestors.has(value)) throw notPlain(path, "a reference to an object that contains it");
  ancestors.add(value);
  const encoded = Array.isArray(value)
    ? value.map((item, index) => encodeValue(item, `${path}[${index}]`, ancestors))
    : encodeObject(value, path, ancestors);
  ancestors.delete(value);
  return encoded;
}

function encodeObject(value: object, path: string, ancestors: Set<object>): unknown {
  const prototype = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) {
    throw notPlain(path, `a ${value.constructor?.name ?? "class instance"}`);
  }
  if (Object.hasOwn(value, TAG)) throw notPlain(path, `an object with the reserved key "${TAG}"`);
  // A member that is undefined is left out, as in JSON. fromEntries keeps a key such as __proto__ a plain key.
  const entries = Object.entries(value).filter(([, member]) => member !== undefined);
  return Object.fromEntries(
    entries.map(([key, member]) => [key, encodeValue(member, `${path}.${key}`, ancestors)]),
  );
}

function decodeValue(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(decodeValue);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value);
  const [first] = entries;
  if (entries.length === 1 && first?.[0] === TAG && typeof first[1] === "string") return Number(first[1]);
  return Object.fromEntries(entries.map(([key, member]) => [key, decodeValue(member)]));
}

function notPlain(path: string, found: string): CheckpointError {
  return new CheckpointError(
    `cannot save ${path}: it is ${found}; only plain data can be saved (null, booleans, numbers, strings, ` +
      "arrays, objects), so convert it first",
    { code: "checkpoint.not_plain_data", details: { path, found } },
  );
}
