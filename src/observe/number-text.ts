// Numbers and values as text: C's %.6g and Python's own spelling for log lines, and short forms for people.
// Pure string work, no locale.

/** Significant digits of |x| correctly rounded (ties to even, as C does), with the decimal exponent. */
function roundDigits(magnitude: number, digits: number): { text: string; exponent: number } {
  const [mantissa = "", power = "0"] = magnitude.toExponential(digits - 1).split("e");
  let text = mantissa.replace(".", "");
  const exact = (magnitude.toExponential(100).split("e")[0] ?? "").replace(".", "");
  // JavaScript rounds exact ties up; C rounds them to the even digit.
  if (/^50*$/.test(exact.slice(digits)) && Number(exact[digits - 1]) % 2 === 0) {
    text = exact.slice(0, digits);
    return { text, exponent: Number(magnitude.toExponential(100).split("e")[1] ?? "0") };
  }
  return { text, exponent: Number(power) };
}

function exponentText(exponent: number): string {
  const size = String(Math.abs(exponent)).padStart(2, "0");
  return `e${exponent < 0 ? "-" : "+"}${size}`;
}

function placePoint(digits: string, exponent: number): string {
  if (exponent < 0) return `0.${"0".repeat(-exponent - 1)}${digits}`;
  const whole = digits.slice(0, exponent + 1).padEnd(exponent + 1, "0");
  const fraction = digits.slice(exponent + 1);
  return fraction === "" ? whole : `${whole}.${fraction}`;
}

/** `nan`, `inf` or `-inf`, which Python's `float()` reads back; `undefined` for finite numbers. */
export function nonFiniteText(x: number): string | undefined {
  if (Number.isNaN(x)) return "nan";
  if (x === Number.POSITIVE_INFINITY) return "inf";
  return x === Number.NEGATIVE_INFINITY ? "-inf" : undefined;
}

/** C's `%.{digits}g`: `1e-20`, `1.23457e+08`, `0.0001`, `nan`. */
export function formatGeneral(x: number, digits = 6): string {
  const special = nonFiniteText(x);
  if (special !== undefined) return special;
  const sign = x < 0 || Object.is(x, -0) ? "-" : "";
  if (x === 0) return `${sign}0`;
  const precision = Math.max(1, digits);
  const { text, exponent } = roundDigits(Math.abs(x), precision);
  const kept = text.replace(/0+$/, "");
  if (exponent >= -4 && exponent < precision) return sign + placePoint(kept, exponent);
  const fraction = kept.slice(1);
  return `${sign}${kept[0]}${fraction === "" ? "" : `.${fraction}`}${exponentText(exponent)}`;
}

/** A float as Python's `repr` spells it: shortest digits that read back, `5.0`, `1e-07`, `1e+16`, `nan`. */
export function formatPythonFloat(x: number): string {
  const special = nonFiniteText(x);
  if (special !== undefined) return special;
  const sign = x < 0 || Object.is(x, -0) ? "-" : "";
  if (x === 0) return `${sign}0.0`;
  const [mantissa = "", power = "0"] = Math.abs(x).toExponential().split("e");
  const digits = mantissa.replace(".", "");
  const exponent = Number(power);
  if (exponent < -4 || exponent >= 16) {
    return `${sign}${mantissa}${exponentText(exponent)}`;
  }
  const placed = placePoint(digits, exponent);
  return sign + (placed.includes(".") ? placed : `${placed}.0`);
}

/** Text of a value nested in a log line, as Python prints dicts and lists. Whole numbers print as ints. */
export function formatPythonValue(value: unknown): string {
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value === "number")
    return Number.isSafeInteger(value) ? String(value) : formatPythonFloat(value);
  if (typeof value === "string") return quotePython(value);
  if (Array.isArray(value)) return `[${value.map(formatPythonValue).join(", ")}]`;
  if (typeof value === "object") {
    const rows = Object.entries(value).map(
      ([key, item]) => `${quotePython(key)}: ${formatPythonValue(item)}`,
    );
    return `{${rows.join(", ")}}`;
  }
  return String(value);
}

function quotePython(value: string): string {
  const escaped = escapeControls(value.replaceAll("\\", "\\\\"));
  return escaped.includes("'") && !escaped.includes('"')
    ? `"${escaped}"`
    : `'${escaped.replaceAll("'", "\\'")}'`;
}

/** Replaces control characters by visible escapes: keeps a record on one line and a terminal unharmed. */
export function escapeControls(value: string, keep = ""): string {
  let out = "";
  for (const char of value) {
    const code = char.codePointAt(0) ?? 0;
    const isControl = code < 0x20 || (code >= 0x7f && code < 0xa0) || code === 0x2028 || code === 0x2029;
    out += isControl && !keep.includes(char) ? controlText(char, code) : char;
  }
  return out;
}

function controlText(char: string, code: number): string {
  const known: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };
  return (
    known[char] ?? (code > 0xff ? `\\u${code.toString(16)}` : `\\x${code.toString(16).padStart(2, "0")}`)
  );
}

/** `850ms`, `9.4s`, `3m 12s`, `2h 05m`, `3d 04h`; `?` for anything that is not a duration. */
export function formatDuration(seconds: number): string {
  if (!Number.isFinite(seconds) || seconds < 0) return "?";
  if (seconds < 0.9995) return `${Math.round(seconds * 1000)}ms`;
  if (seconds < 9.95) return `${seconds.toFixed(1)}s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole}s`;
  const two = (value: number): string => String(value).padStart(2, "0");
  if (whole < 3600) return `${Math.floor(whole / 60)}m ${two(whole % 60)}s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 24 * 60) return `${Math.floor(minutes / 60)}h ${two(minutes % 60)}m`;
  const hours = Math.round(seconds / 3600);
  return `${Math.floor(hours / 24)}d ${two(hours % 24)}h`;
}

/** Counts and rates with three significant digits: `950`, `12.3k`, `1.34M`, `7B`. */
export function formatCount(value: number): string {
  const special = nonFiniteText(value);
  if (special !== undefined) return special;
  const size = Math.abs(value);
  const units: readonly (readonly [number, string])[] = [
    [1e12, "T"],
    [1e9, "B"],
    [1e6, "M"],
    [1e3, "k"],
  ];
  for (const [unit, suffix] of units) {
    // 999,950 rounds to 1000k, so it already belongs to the next unit.
    if (size >= unit * 0.9995) return `${Number((value / unit).toPrecision(3))}${suffix}`;
  }
  return String(Number(value.toPrecision(3)));
}
