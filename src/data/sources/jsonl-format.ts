// Node only. JSON Lines: one object a line. Lines are found as bytes, so that one bad line spoils no other.

import { unpackedChunks } from "./decompress.js";
import type { RawRecord, SourceFormat } from "./format.js";
import { splitBytes } from "./split-bytes.js";

const longestLineBytes = 2 ** 28;
const lineEnd = Uint8Array.of(0x0a);

export const jsonlFormat: SourceFormat = {
  unit: "line",

  async *read(file, skip, { chunkBytes }) {
    let lines = 0;
    for await (const { bytes, isTooLong } of splitBytes(
      unpackedChunks(file, chunkBytes),
      lineEnd,
      longestLineBytes,
    )) {
      if (lines++ < skip) continue;
      yield isTooLong
        ? { kind: "bad", reason: `the line has more than ${longestLineBytes} bytes` }
        : parseLine(bytes);
    }
    return lines;
  },
};

const utf8 = new TextDecoder("utf-8", { fatal: true });

function parseLine(bytes: Uint8Array): RawRecord {
  let text: string;
  try {
    text = utf8.decode(bytes).trim();
  } catch {
    return { kind: "bad", reason: "it is not valid UTF-8" };
  }
  if (text === "") return { kind: "empty" };
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return {
      kind: "bad",
      reason: `it is not JSON: ${error instanceof Error ? error.message : String(error)}`,
    };
  }
  if (typeof value === "object" && value !== null && !Array.isArray(value))
    return { kind: "fields", fields: value as Record<string, unknown> };
  return { kind: "bad", reason: "it is JSON, but no object" };
}
