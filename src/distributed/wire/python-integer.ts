// Integers as Python's int() reads them from text, within the range that a number holds exactly. Only for reading what
// a Python peer may have written; our own texts are plain decimals. Digits of other scripts are not taken.

const INTEGER = /^[+-]?[0-9]+(?:_[0-9]+)*$/;

/** The integer in `text`, or undefined when it is none or lies beyond ±(2^53 - 1). */
export function parsePythonInteger(text: string): number | undefined {
  const trimmed = text.trim();
  if (!INTEGER.test(trimmed)) return undefined;
  const value = Number(trimmed.replaceAll("_", ""));
  // `+ 0` turns -0 into 0.
  return Number.isSafeInteger(value) ? value + 0 : undefined;
}
