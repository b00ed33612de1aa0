// How an unquoted word of a YAML file is read. The rules are those that the Python system's files rely on (YAML
// 1.1 booleans, underscores in numbers), plus numbers as people write them (3e-4), minus the readings that
// surprise: a leading zero is not octal, 12:30 is not 750. Those stay text, and numbers refuse text.

const WORDS: ReadonlyMap<string, boolean | null> = new Map<string, boolean | null>([
  ["~", null],
  ["null", null],
  ["true", true],
  ["yes", true],
  ["on", true],
  ["false", false],
  ["no", false],
  ["off", false],
]);

const DIGITS = "[0-9](?:_?[0-9])*";
const INTEGER = /^[-+]?(?:0|[1-9](?:_?[0-9])*)$/;
const BASED = /^[-+]?0(?:x[0-9a-f](?:_?[0-9a-f])*|o[0-7](?:_?[0-7])*|b[01](?:_?[01])*)$/i;
const DECIMAL = new RegExp(`^[-+]?(?:${DIGITS}\\.(?:${DIGITS})?|\\.${DIGITS})(?:e[-+]?[0-9]+)?$`, "i");
const EXPONENT = /^[-+]?(?:0|[1-9](?:_?[0-9])*)e[-+]?[0-9]+$/i;

/** YAML allows `true`, `True` and `TRUE`, not `tRue`. */
function isUniformCase(word: string): boolean {
  const tail = word.slice(1);
  return tail === tail.toLowerCase() || word === word.toUpperCase();
}

/** The value of an unquoted scalar: null, a boolean, a number, or the text itself. */
export function resolvePlainScalar(text: string): null | boolean | number | string {
  if (text === "") return null;
  const word = WORDS.get(text.toLowerCase());
  if (word !== undefined && isUniformCase(text)) return word;
  if (INTEGER.test(text) || DECIMAL.test(text) || EXPONENT.test(text))
    return Number(text.replaceAll("_", ""));
  if (BASED.test(text)) {
    const negative = text.startsWith("-");
    const magnitude = Number(text.replace(/^[-+]/, "").replaceAll("_", ""));
    return negative ? -magnitude : magnitude;
  }
  if (/^[-+]?\.inf$/i.test(text)) return text.startsWith("-") ? -Infinity : Infinity;
  if (/^\.nan$/i.test(text)) return Number.NaN;
  return text;
}

/** Why a text in the place of a number is not one, if it looks as if it were meant to be. */
export function hintForNumber(text: string): string | undefined {
  const trimmed = text.trim();
  if (typeof resolvePlainScalar(trimmed) === "number") return "write it without quotes";
  if (/^[-+]?0[0-9_]+$/.test(trimmed)) {
    return `a leading zero means octal to some programs; write ${Number(trimmed.replaceAll("_", ""))}, or 0o… for octal`;
  }
  if (/^[0-9]+(?::[0-5]?[0-9])+$/.test(trimmed)) {
    const value = trimmed.split(":").reduce((sum, part) => sum * 60 + Number(part), 0);
    return `older programs read it in base 60; write ${value} if that is meant`;
  }
  if (/^[-+]?[0-9.]+,[0-9]+$/.test(trimmed)) return "write a decimal point instead of the comma";
  return undefined;
}
