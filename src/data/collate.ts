// Puts causal samples of different lengths into one rectangle: inputs padded with 0 and labels with −100, on
// the right. Counts what is real while it copies.

import { DataError } from "../util/errors.js";
import type { Batch, CollatedBatch, Sample } from "./types.js";

/** The label that the loss leaves out. */
export const ignoredLabel = -100;

export interface CollateOptions {
  /** Rows of the batch; rows beyond the samples are padding throughout. Default: as many as samples. */
  rows?: number;
  /** Columns at least. Default: the longest sample. */
  minWidth?: number;
  /** `whenPadded` (default), or `never` where the caller knows that padding cannot do harm. */
  mask?: "whenPadded" | "never";
}

/** `input_ids`, `labels` and perhaps `attention_mask`, [rows, width]. Throws DataError for no samples. */
export function collateCausal(samples: readonly Sample[], options: CollateOptions = {}): CollatedBatch {
  if (samples.length === 0) {
    throw new DataError("Cannot make a batch of no samples.", { code: "data.empty_batch" });
  }
  const rows = options.rows ?? samples.length;
  const width = Math.max(options.minWidth ?? 0, ...samples.map((sample) => sample.inputIds.length));
  const inputIds = new Int32Array(rows * width);
  const labels = new Int32Array(rows * width).fill(ignoredLabel);
  const shape = [rows, width];

  let tokens = 0;
  let targetTokens = 0;
  for (const [row, sample] of samples.entries()) {
    if (sample.inputIds.length !== sample.labels.length) throw lengthError(row, sample);
    inputIds.set(sample.inputIds, row * width);
    labels.set(sample.labels, row * width);
    tokens += sample.inputIds.length;
    for (const label of sample.labels) if (label !== ignoredLabel) targetTokens++;
  }

  const batch: Record<string, Batch[string]> = {
    input_ids: { dtype: "int32", shape, data: inputIds },
    labels: { dtype: "int32", shape, data: labels },
  };
  if (tokens < rows * width && options.mask !== "never") {
    batch.attention_mask = { dtype: "bool", shape, data: maskOf(samples, rows, width) };
  }
  return { batch, samples: samples.length, tokens, targetTokens };
}

function maskOf(samples: readonly Sample[], rows: number, width: number): Uint8Array {
  const mask = new Uint8Array(rows * width);
  for (const [row, sample] of samples.entries()) {
    mask.fill(1, row * width, row * width + sample.inputIds.length);
  }
  return mask;
}

function lengthError(row: number, sample: Sample): DataError {
  const { inputIds, labels } = sample;
  return new DataError(
    `Sample ${row} of the batch has ${inputIds.length} input ids but ${labels.length} labels. ` +
      "Each input id needs a label; use -100 where there is no target.",
    { code: "data.sample_shape", details: { row, inputIds: inputIds.length, labels: labels.length } },
  );
}
