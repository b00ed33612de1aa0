// JSON text byte for byte as Python's json.dumps(value, indent=2, sort_keys=True) writes it, so that one value has one
// text on both sides. Reading is JSON.parse's business.

import { WireError } from "./errors.js";
import { compareCodePoints } from "./order.js";

export type JsonValue =
  | string
  | number
  | boolean
  | null
  | readonly JsonValue[]
  | { readonly [key: string]: JsonValue };

const SHORT_ESCAPES: Readonly<Record<string, string>> = {
  '"': '\\"',
  "\\": "\\\\",
  "\b": "\\b",
  "\f": "\\f",
  "\n": "\\n",
  "\r": "\\r",
  "\t": "\\t",
};

/**
 * @throws WireError `wire.invalid_record` for NaN and infinities, which are not JSON, and for values of other types.
 */
export function encodePythonJson(value: JsonValue, indent = ""): string {
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value === "string") return encodeText(value);
  if (typeof value === "number") return encodeNumber(value);
  const inner = `${indent}  `;
  if (isList(value)) {
    if (value.length === 0) return "[]";
    const items = value.map((item) => inner + encodePythonJson(item, inner));
    return `[\n${items.join(",\n")}\n${indent}]`;
  }
  if (typeof value !== "object") {
    throw new WireError("invalid_record", `a value of type ${typeof value} has no place in JSON`);
  }
  const keys = Object.keys(value).sort(compareCodePoints);
  if (keys.length === 0) return "{}";
  const members = keys.map((key) => `${inner}${encodeText(key)}: ${encodePythonJson(value[key]!, inner)}`);
  return `{\n${members.join(",\n")}\n${indent}}`;
}

function isList(value: object): value is readonly JsonValue[] {
  return Array.isArray(value);
}

function encodeText(text: string): string {
  const escaped = text.replace(
    /["\\]|[^ -~]/g,
    (unit) => SHORT_ESCAPES[unit] ?? `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
  return `"${escaped}"`;
}

/** Integers plainly, other numbers as Python's repr() of a float: shortest digits, exponents of two digits. */
function encodeNumber(value: number): string {
  if (!Number.isFinite(value)) throw new WireError("invalid_record", `${value} cannot be written as JSON`);
  if (Number.isSafeInteger(value)) return String(value + 0);
  const [mantissa, exponentText] = value.toExponential().split("e") as [string, string];
  const exponent = Number(exponentText);
  if (exponent >= 16 || exponent < -4) {
    const sign = exponent < 0 ? "-" : "+";
    return `${mantissa}e${sign}${String(Math.abs(exponent)).padStart(2, "0")}`;
  }
  // Down to 1e-6 JavaScript writes plain decimals as well; a whole number here is one above 2^53.
  return Number.isInteger(value) ? `${value}.0` : String(value);
}
