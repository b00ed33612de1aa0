// Copies of payloads: plain data only, frozen to the last level, so that no receiver can change what another
// one sees. Not a general clone: whatever JSON has no form for becomes text.

type Plain = Record<string, unknown>;

const maximumDepth = 8;

function copyObject(value: object, depth: number): unknown {
  if (depth > maximumDepth) return "[too deep]";
  if (Array.isArray(value)) return Object.freeze(value.map((item) => copyValue(item, depth + 1) ?? null));
  if (ArrayBuffer.isView(value) && !(value instanceof DataView)) {
    return Object.freeze(
      Array.from(value as unknown as ArrayLike<number | bigint>, (item) => copyValue(item, depth + 1)),
    );
  }
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? null : value.toISOString();
  if (value instanceof Error) return `${value.name}: ${value.message}`;
  if (value instanceof Map) return copyObject(Object.fromEntries(value), depth);
  if (value instanceof Set) return copyObject([...value], depth);
  return Object.freeze(copyEntries(value, depth + 1));
}

function copyValue(value: unknown, depth: number): unknown {
  switch (typeof value) {
    case "object":
      return value === null ? null : copyObject(value, depth);
    case "bigint": {
      const number = Number(value);
      return Number.isSafeInteger(number) ? number : String(value);
    }
    case "function":
    case "symbol":
      return String(value);
    default:
      return value;
  }
}

function copyEntries(source: object, depth: number): Plain {
  const copy: Plain = {};
  for (const [key, value] of Object.entries(source)) {
    // A plain `copy[key] =` would set the prototype for the key "__proto__".
    if (value !== undefined) {
      Object.defineProperty(copy, key, { value: copyValue(value, depth), enumerable: true, writable: true });
    }
  }
  return copy;
}

/** Deep, frozen copy of a payload with `added` behind it; keys whose value is `undefined` are left out. */
export function copyPayload<Added extends object>(source: object, added: Added): Readonly<Plain> & Added {
  return Object.freeze(Object.assign(copyEntries(source, 0), added));
}
