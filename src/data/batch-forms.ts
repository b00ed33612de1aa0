// Batches in the forms that loaders of others give them: a record, a map, a list, or one tensor. All become records; a
// list's items are named by their places, and reach the model in that order as its arguments.

import type { TensorData } from "../tensor/dtype.js";
import { DataError } from "../util/errors.js";
import type { Batch, DataLoader, LoadedBatch } from "./types.js";

/** Every form that is taken. */
export type AnyBatch = Batch | ReadonlyMap<string, TensorData> | readonly TensorData[] | TensorData;

/** A loader of your own. */
export type AnyLoader = Omit<DataLoader, "next"> & {
  next(): Promise<Omit<LoadedBatch, "batch"> & { readonly batch: AnyBatch }>;
};

/** The same stream with every batch as a record. */
export function namedBatches(loader: AnyLoader): DataLoader {
  return {
    get batchesPerEpoch() {
      return loader.batchesPerEpoch;
    },
    position: () => loader.position(),
    seek: (position) => loader.seek(position),
    close: () => loader.close(),
    async next() {
      const loaded = await loader.next();
      return { ...loaded, batch: namedBatch(loaded.batch) };
    },
  };
}

/** @throws DataError `data.batch_form` for what is no batch, naming the field */
export function namedBatch(batch: unknown): Batch {
  const named = entriesOf(batch);
  if (named === undefined || named.length === 0)
    throw new DataError(
      "A batch must be a record, a map or a list of tensors ({ dtype, shape, data }), or one of these alone; " +
        `the loader gave ${named ? "none" : described(batch)}.`,
      { code: "data.batch_form" },
    );
  for (const [name, value] of named)
    if (!isTensorData(value))
      throw new DataError(
        `Field "${name}" of the batch must be a tensor ({ dtype, shape, data }), but is ${described(value)}. ` +
          "Leave out what is no tensor, or give it in `lists`.",
        { code: "data.batch_form", details: { field: name } },
      );
  return Object.fromEntries(named) as Batch;
}

function entriesOf(batch: unknown): (readonly [string, unknown])[] | undefined {
  if (isTensorData(batch)) return [["0", batch]];
  if (batch instanceof Map) return [...batch].map(([name, value]) => [String(name), value] as const);
  return typeof batch === "object" && batch !== null ? Object.entries(batch) : undefined;
}

function isTensorData(value: unknown): value is TensorData {
  const { dtype, shape, data } = (value ?? {}) as Partial<TensorData>;
  return typeof dtype === "string" && Array.isArray(shape) && ArrayBuffer.isView(data);
}

function described(value: unknown): string {
  return typeof value === "object" && value !== null
    ? `of ${value.constructor?.name ?? "no class"}`
    : String(value);
}
