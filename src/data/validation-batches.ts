// Walks over a held-out dataset once, in order, in batches of one constant shape, so that a single compiled
// graph serves them all. What does not fill the last batch is padded with rows that have no targets.

import { collateCausal } from "./collate.js";
import { collateRecords, type RecordSample } from "./collate-records.js";
import type { Dataset, LoadedBatch, Sample } from "./types.js";

export interface ValidationOptions {
  /** Stop after this many batches. Default: all. */
  maxBatches?: number | undefined;
  /**
   * Emit `attention_mask` where something is padded. Default false: padding is on the right and without
   * targets, and a causal model cannot see what comes later, so its loss is the same without a mask.
   */
  emitMask?: boolean | undefined;
}

/** Each batch has `batchSize` rows and the width of the longest sample so far; counts leave padding out. */
export async function* validationBatches(
  dataset: Dataset,
  batchSize: number,
  options: ValidationOptions = {},
): AsyncGenerator<LoadedBatch, void, undefined> {
  const batches = Math.min(Math.ceil(dataset.length / batchSize), options.maxBatches ?? Infinity);
  let minWidth = 0;
  for (let batch = 0; batch < batches; batch++) {
    const first = batch * batchSize;
    const samples: (Sample | Promise<Sample>)[] = [];
    for (let i = first; i < Math.min(first + batchSize, dataset.length); i++) samples.push(dataset.get(i));
    const mask = options.emitMask === true ? "whenPadded" : "never";
    const read = await Promise.all(samples);
    if (!read.every((sample) => sample.inputIds instanceof Int32Array)) {
      yield { ...collateRecords(read as unknown as RecordSample[]), epoch: 0 };
      continue;
    }
    const collated = collateCausal(read, { rows: batchSize, minWidth, mask });
    minWidth = collated.batch.input_ids!.shape[1]!;
    yield { ...collated, epoch: 0 };
  }
}
