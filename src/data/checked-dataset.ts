// A user's dataset behind a guard: each sample is checked against the vocabulary before it can reach a
// kernel, where a wrong id would be read beyond a table or fail without a hint of its origin.

import { DataError } from "../util/errors.js";
import { ignoredLabel } from "./collate.js";
import type { Dataset, Sample } from "./types.js";

export class CheckedDataset implements Dataset {
  constructor(
    private readonly dataset: Dataset,
    private readonly vocabSize: number,
  ) {}

  get length(): number {
    return this.dataset.length;
  }

  get(index: number): Sample | Promise<Sample> {
    const sample = this.dataset.get(index);
    return sample instanceof Promise
      ? sample.then((resolved) => this.check(resolved, index))
      : this.check(sample, index);
  }

  describe(): Record<string, unknown> {
    return this.dataset.describe();
  }

  private check(sample: Sample, index: number): Sample {
    const { inputIds, labels } = sample;
    if (inputIds.length === 0 || inputIds.length !== labels.length) {
      throw new DataError(
        `Sample ${index} of the dataset has ${inputIds.length} input ids and ${labels.length} labels. ` +
          "It needs at least one input id, and one label for each (-100 where there is no target).",
        { code: "data.sample_shape", details: { index, inputIds: inputIds.length, labels: labels.length } },
      );
    }
    this.checkIds("inputIds", inputIds, index);
    this.checkIds("labels", labels, index);
    return sample;
  }

  private checkIds(field: "inputIds" | "labels", ids: Int32Array, index: number): void {
    for (let position = 0; position < ids.length; position++) {
      const id = ids[position]!;
      if (id >= 0 && id < this.vocabSize) continue;
      if (id === ignoredLabel && field === "labels") continue;
      throw new DataError(
        `Sample ${index} of the dataset has ${field}[${position}] = ${id}, outside the vocabulary of ` +
          `${this.vocabSize}. Raise model.vocab_size or correct the data.`,
        { code: "data.id_out_of_range", details: { index, field, position, id, vocabSize: this.vocabSize } },
      );
    }
  }
}
