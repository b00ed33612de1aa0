// A short cut for headers as writers write them: the platform's JSON parser is many times faster than a scanner, above
// all in a process that has just started. What that parser hides (a key that comes twice, numbers that were rounded)
// shows when its result is written out again and the text is not the same; such headers are the scanner's.

import { isSafetensorsDtype } from "./dtypes.js";
import { checkEntry, type TensorEntry } from "./tensor-entry.js";

/** Beyond this the scanner is fast by itself, and no object of the whole header is needed in memory. */
const MAX_TEXT_LENGTH = 2 ** 20;

export interface HeaderTable {
  readonly entries: Map<string, TensorEntry>;
  readonly metadata: ReadonlyMap<string, string> | undefined;
}

/**
 * The table in `text`; undefined for a text that is not compact, is damaged, or has anything unusual in it.
 * @throws SafetensorsError as the scanner's way does, for entries whose numbers do not fit together.
 */
export function readCompactHeader(
  text: string,
  metadataKey: string,
  file: string | undefined,
): HeaderTable | undefined {
  // Escapes have several spellings, and half surrogate pairs would come back as they went in.
  if (text.length > MAX_TEXT_LENGTH || text.includes("\\")) return undefined;
  const header = parseCompact(text);
  if (header === undefined) return undefined;
  const entries = new Map<string, TensorEntry>();
  let metadata: ReadonlyMap<string, string> | undefined;
  for (const name of Object.keys(header)) {
    const value = header[name];
    if (!isRecord(value)) return undefined;
    if (name === metadataKey) {
      const pairs = Object.entries(value);
      if (!pairs.every((pair): pair is [string, string] => typeof pair[1] === "string")) return undefined;
      metadata = new Map(pairs);
      continue;
    }
    const { dtype, shape, data_offsets: offsets } = value;
    if (typeof dtype !== "string" || !isSafetensorsDtype(dtype)) return undefined;
    if (!isCounts(shape) || !isCounts(offsets) || Object.keys(value).length !== 3) return undefined;
    entries.set(name, checkEntry(name, dtype, shape, offsets, file));
  }
  return { entries, metadata };
}

/** The object that `text` stands for, if it is the only text that stands for it. */
function parseCompact(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isRecord(value) && JSON.stringify(value) === text.trimEnd() ? value : undefined;
  } catch {
    return undefined;
  }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isCounts(value: unknown): value is number[] {
  if (!Array.isArray(value)) return false;
  // By index: iterators are slow in code that has not been compiled yet, and this runs for every tensor.
  for (let i = 0; i < value.length; i++) if (!(value[i] >= 0 && Number.isSafeInteger(value[i]))) return false;
  return true;
}
