// A reader under other names: tensors that are tied appear under each of their names, and renamed ones under the new
// name. The bytes come from the reader below, which stays the owner of its source.

import type { TensorEntry, TensorReader } from "../../formats/safetensors/index.js";
import { toolError } from "./errors.js";

/**
 * `reader` seen through `names`: new name → name in `reader`. Only these tensors are visible, in this order.
 * Closing it closes `reader`.
 */
export function renamedReader(reader: TensorReader, names: ReadonlyMap<string, string>): TensorReader {
  const entries = new Map(
    [...names].map(([name, original]): [string, TensorEntry] => [name, { ...reader.entry(original), name }]),
  );
  const originalOf = (name: string): string => {
    const original = names.get(name);
    if (original !== undefined) return original;
    throw toolError("tensor_not_found", `no tensor "${name}"; there are ${names.size}`, { tensor: name });
  };
  const { readRangeInto } = reader;
  return {
    entries,
    entry: (name) => {
      originalOf(name);
      return entries.get(name)!;
    },
    read: async (name) => reader.read(originalOf(name)),
    readRange: async (name, begin, end) => reader.readRange(originalOf(name), begin, end),
    readInto: async (name, target) => reader.readInto(originalOf(name), target),
    ...(readRangeInto === undefined
      ? {}
      : {
          readRangeInto: async (name: string, begin: number, target: Uint8Array) =>
            readRangeInto.call(reader, originalOf(name), begin, target),
        }),
    chunks: (name, chunkBytes) => reader.chunks(originalOf(name), chunkBytes),
    close: () => reader.close(),
  };
}

/** `reader` with tied tensors under all their names. `aliases`: name → name under which the values stand. */
export function withAliases(reader: TensorReader, aliases: Readonly<Record<string, string>>): TensorReader {
  const missing = Object.entries(aliases).filter(([alias]) => !reader.entries.has(alias));
  if (missing.length === 0) return reader;
  return renamedReader(
    reader,
    new Map([...[...reader.entries.keys()].map((name) => [name, name] as const), ...missing]),
  );
}

/** The part of `reader` whose names pass. */
export function filteredReader(reader: TensorReader, isIncluded: (name: string) => boolean): TensorReader {
  const names = [...reader.entries.keys()].filter(isIncluded);
  return renamedReader(reader, new Map(names.map((name) => [name, name])));
}
