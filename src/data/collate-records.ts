// Puts samples of any kind into one batch, key by key: stacked, padded, or kept as a list. Nothing that a sample holds
// is dropped, and nothing is guessed: samples that do not fit together are refused with the key and both sizes.

import { allocate, type DType, type TensorData } from "../tensor/dtype.js";
import { DataError } from "../util/errors.js";
import { collateCausal, ignoredLabel } from "./collate.js";
import type { CollatedBatch, Sample } from "./types.js";

/** One field of a sample. Plain numbers become float32, Uint8Array and booleans bool. */
export type FieldValue =
  | number
  | boolean
  | readonly number[]
  | Int32Array
  | Float32Array
  | Uint8Array
  | TensorData;

export type RecordSample = Readonly<Record<string, unknown>>;

/**
 * `stack`: equal shapes along a new first axis. `pad`: first axis filled up to the longest; `mask` names a further
 * field, 1 on what is real. `list`: kept beside the batch as it is, and not given to the model.
 */
export type CollateRule =
  | { readonly how: "stack" }
  | { readonly how: "pad"; readonly value?: number; readonly mask?: string }
  | { readonly how: "list" };

export type CollateRules = Readonly<Record<string, CollateRule>>;

/** Of the fields that language models have everywhere. Everything else is stacked, or listed if it is no number. */
const usualRules: CollateRules = {
  input_ids: { how: "pad", value: 0, mask: "attention_mask" },
  labels: { how: "pad", value: ignoredLabel },
  attention_mask: { how: "pad", value: 0 },
};

/** Samples in code have the names of code. */
const batchNames: Readonly<Record<string, string>> = {
  inputIds: "input_ids",
  attentionMask: "attention_mask",
};

/** @throws DataError for no samples, for fields that only some have, and for shapes or types that do not fit together */
export function collateRecords(samples: readonly RecordSample[], rules: CollateRules = {}): CollatedBatch {
  const first = samples[0];
  if (first === undefined)
    throw new DataError("Cannot make a batch of no samples.", { code: "data.empty_batch" });
  requireSameKeys(samples);
  const batch: Record<string, TensorData> = {};
  const lists: Record<string, readonly unknown[]> = {};
  for (const key of Object.keys(first)) {
    const name = batchNames[key] ?? key;
    const values = samples.map((sample) => sample[key]);
    const rule = rules[name] ?? rules[key] ?? usualRule(name, values);
    if (rule.how === "list") lists[name] = values;
    else {
      const fields = values.map((value, row) => tensorOf(value, name, row));
      batch[name] = rule.how === "pad" ? padded(fields, name, rule.value ?? 0) : stacked(fields, name);
      const mask = rule.how === "pad" ? rule.mask : undefined;
      const isRagged = fields.some(({ shape }) => shape[0] !== fields[0]!.shape[0]);
      if (mask !== undefined && isRagged && !(mask in first) && !(maskKey(mask) in first))
        batch[mask] = maskOf(fields);
    }
  }
  return {
    batch,
    ...countsOf(samples.length, batch),
    ...(Object.keys(lists).length > 0 && { lists }),
  };
}

/** Samples of a dataset of somebody else's: of a language model's usual kind, or of any other. */
export function collateSamples(samples: readonly (Sample | RecordSample)[]): CollatedBatch {
  return samples.every(isPlainSample)
    ? collateCausal(samples)
    : collateRecords(samples as readonly RecordSample[]);
}

/** Ids and labels, and nothing else that could be dropped. */
export function isPlainSample(sample: object): sample is Sample {
  const { inputIds, labels } = sample as Partial<Sample>;
  return inputIds instanceof Int32Array && labels instanceof Int32Array && Object.keys(sample).length === 2;
}

const maskKey = (name: string): string =>
  Object.keys(batchNames).find((key) => batchNames[key] === name) ?? name;

function usualRule(name: string, values: readonly unknown[]): CollateRule {
  const { shape } = isField(values[0]) ? tensorOf(values[0], name, 0) : { shape: undefined };
  if (shape === undefined) return { how: "list" };
  const own = Object.hasOwn(usualRules, name) ? usualRules[name] : undefined;
  // A label that is one number is no sequence.
  return own && shape.length > 0 ? own : { how: "stack" };
}

function requireSameKeys(samples: readonly RecordSample[]): void {
  const keysOf = (sample: RecordSample) => Object.keys(sample).sort();
  const expected = keysOf(samples[0]!);
  for (const [row, sample] of samples.entries()) {
    const keys = keysOf(sample);
    const odd = keys.find((key) => !expected.includes(key)) ?? expected.find((key) => !keys.includes(key));
    if (odd !== undefined)
      throw new DataError(
        `Sample ${row} of the batch ${keys.includes(odd) ? "has" : "lacks"} the field "${odd}", unlike sample 0. ` +
          "All samples of a dataset need the same fields.",
        { code: "data.sample_fields", details: { row, field: odd } },
      );
  }
}

function isField(value: unknown): value is FieldValue {
  if (typeof value === "number" || typeof value === "boolean") return true;
  if (value instanceof Int32Array || value instanceof Float32Array || value instanceof Uint8Array)
    return true;
  if (Array.isArray(value)) return value.every((item) => typeof item === "number");
  const { dtype, shape, data } = (value ?? {}) as Partial<TensorData>;
  return typeof dtype === "string" && Array.isArray(shape) && ArrayBuffer.isView(data);
}

function tensorOf(value: unknown, name: string, row: number): TensorData {
  if (!isField(value))
    throw new DataError(
      `Field "${name}" of sample ${row} is ${value === null ? "null" : `of type ${typeof value}`}, which no tensor holds. ` +
        `Give numbers, or the rule { how: "list" } for it.`,
      { code: "data.field_type", details: { row, field: name } },
    );
  if (typeof value === "number") return { dtype: "float32", shape: [], data: Float32Array.of(value) };
  if (typeof value === "boolean") return { dtype: "bool", shape: [], data: Uint8Array.of(Number(value)) };
  if (value instanceof Int32Array) return { dtype: "int32", shape: [value.length], data: value };
  if (value instanceof Float32Array) return { dtype: "float32", shape: [value.length], data: value };
  if (value instanceof Uint8Array) return { dtype: "bool", shape: [value.length], data: value };
  if (Array.isArray(value))
    return { dtype: "float32", shape: [value.length], data: Float32Array.from(value as number[]) };
  return value as TensorData;
}

function stacked(fields: readonly TensorData[], name: string): TensorData {
  const { dtype, shape } = fields[0]!;
  for (const [row, field] of fields.entries())
    if (field.dtype !== dtype || field.shape.join() !== shape.join())
      throw new DataError(
        `Field "${name}" is ${text(field)} in sample ${row} and ${text(fields[0]!)} in sample 0: they cannot be stacked. ` +
          `Make them equal, or give the rule { how: "pad" } or { how: "list" } for it.`,
        { code: "data.field_shape", details: { row, field: name } },
      );
  const size = fields[0]!.data.length;
  const data = allocate(dtype, size * fields.length);
  for (const [row, field] of fields.entries()) data.set(field.data, row * size);
  return { dtype, shape: [fields.length, ...shape], data };
}

function padded(fields: readonly TensorData[], name: string, value: number): TensorData {
  const { dtype, shape } = fields[0]!;
  const [, ...inner] = shape;
  for (const [row, field] of fields.entries())
    if (field.dtype !== dtype || field.shape.length === 0 || field.shape.slice(1).join() !== inner.join())
      throw new DataError(
        `Field "${name}" is ${text(field)} in sample ${row} and ${text(fields[0]!)} in sample 0: only the first axis can be padded.`,
        { code: "data.field_shape", details: { row, field: name } },
      );
  const longest = Math.max(...fields.map((field) => field.shape[0]!));
  const size = longest * inner.reduce((product, extent) => product * extent, 1);
  const data = allocate(dtype, size * fields.length).fill(value);
  for (const [row, field] of fields.entries()) data.set(field.data, row * size);
  return { dtype, shape: [fields.length, longest, ...inner], data };
}

function maskOf(fields: readonly TensorData[]): TensorData {
  const longest = Math.max(...fields.map((field) => field.shape[0]!));
  const data = new Uint8Array(fields.length * longest);
  for (const [row, { shape }] of fields.entries()) data.fill(1, row * longest, row * longest + shape[0]!);
  return { dtype: "bool", shape: [fields.length, longest], data };
}

/** Tokens are what `input_ids` really hold, targets the labels that count; without these a sample is one of each. */
function countsOf(
  samples: number,
  { input_ids, attention_mask, labels }: Readonly<Record<string, TensorData>>,
): Pick<CollatedBatch, "samples" | "tokens" | "targetTokens"> {
  const count = (data: ArrayLike<number>, isCounted: (value: number) => boolean) => {
    let found = 0;
    for (let i = 0; i < data.length; i++) if (isCounted(data[i]!)) found++;
    return found;
  };
  const real = attention_mask && count(attention_mask.data, (value) => value !== 0);
  return {
    samples,
    tokens: real ?? input_ids?.data.length ?? samples,
    targetTokens: labels?.dtype === "int32" ? count(labels.data, (value) => value !== ignoredLabel) : samples,
  };
}

const text = ({ dtype, shape }: { readonly dtype: DType; readonly shape: readonly number[] }): string =>
  `${dtype} [${shape.join(", ")}]`;
