// A user's dataset behind a guard: each sample is checked against the vocabulary before it can reach a
// kernel, where a wrong id would be read beyond a table or fail without a hint of its origin.

import { DataError, SpeedtronicError } from "../util/errors.js";
import { ignoredLabel } from "./collate.js";
import type { RecordSample } from "./collate-records.js";
import type { Dataset, Sample } from "./types.js";

export class CheckedDataset implements Dataset {
  /** @throws DataError for what is no dataset */
  constructor(
    private readonly dataset: Dataset | Dataset<RecordSample>,
    private readonly vocabSize: number,
  ) {
    checkDataset(dataset);
  }

  get length(): number {
    return this.dataset.length;
  }

  get(index: number): Sample | Promise<Sample> {
    let sample: Sample | Promise<Sample>;
    try {
      // What other records hold is for the collation to judge.
      sample = (this.dataset as Dataset).get(index);
    } catch (error) {
      throw unreadable(index, error);
    }
    return sample instanceof Promise
      ? sample.then(
          (resolved) => this.check(resolved, index),
          (error: unknown) => {
            throw unreadable(index, error);
          },
        )
      : this.check(sample, index);
  }

  describe(): Record<string, unknown> {
    const description: unknown = this.dataset.describe();
    if (typeof description === "object" && description !== null && !(description instanceof Promise))
      return description as Record<string, unknown>;
    throw wrongDataset(`describe() must return an object of JSON values, not ${described(description)}`);
  }

  private check(sample: Sample, index: number): Sample {
    if (isOtherRecord(sample)) return sample;
    checkForm(sample, index);
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

/** A sample of something else than a language model: nothing is known of its fields. */
function isOtherRecord(sample: unknown): boolean {
  if (typeof sample !== "object" || sample === null || Array.isArray(sample) || ArrayBuffer.isView(sample))
    return false;
  const keys = Object.keys(sample);
  return keys.length > 0 && !keys.some((key) => ["inputIds", "input_ids"].includes(key));
}

/** Programs without types can hand over anything. */
function checkDataset(dataset: unknown): void {
  const { length, get, describe } = (dataset ?? {}) as Partial<Dataset>;
  if (typeof get !== "function") throw wrongDataset("get(index) is missing, which returns a sample");
  if (typeof describe !== "function")
    throw wrongDataset(
      "describe() is missing. It returns what tells this dataset from others, such as { kind, samples, hash }; a " +
        "checkpoint is continued on equal data only",
    );
  if (!Number.isSafeInteger(length) || length! < 0)
    throw wrongDataset(`length must be its number of samples, not ${described(length)}`);
}

function checkForm(sample: unknown, index: number): asserts sample is Sample {
  const { inputIds, labels } = (sample ?? {}) as Partial<Sample>;
  if (inputIds instanceof Int32Array && labels instanceof Int32Array) return;
  const got =
    typeof sample === "object" && sample !== null
      ? `inputIds are ${described(inputIds)} and labels are ${described(labels)}`
      : `it is ${described(sample)}`;
  throw new DataError(
    `Sample ${index} of the dataset must be { inputIds, labels }, both Int32Array, but ${got}.`,
    { code: "data.sample_form", details: { index } },
  );
}

function unreadable(index: number, error: unknown): DataError {
  const reason = error instanceof Error ? error.message : String(error);
  const code = error instanceof SpeedtronicError ? error.code : "data.sample_unreadable";
  return new DataError(`Sample ${index} of the dataset could not be read: ${reason}`, {
    code,
    details: { index },
    cause: error,
  });
}

function wrongDataset(what: string): DataError {
  return new DataError(`The dataset cannot be used: ${what}.`, { code: "data.not_a_dataset" });
}

function described(value: unknown): string {
  return typeof value === "object" && value !== null
    ? `of ${value.constructor?.name ?? "no class"}`
    : String(value);
}
