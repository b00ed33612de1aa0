// Counting what could not be used: a few examples are kept for the log, and past a limit the walk ends.

import { DataError } from "../../util/errors.js";

export interface BadRecord {
  /** `file.jsonl, line 12` */
  readonly where: string;
  readonly reason: string;
}

const keptExamples = 5;

/** Of one walk over the documents. */
export class BadRecords {
  readonly #limit: number;
  readonly #examples: BadRecord[] = [];
  #count = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  get count(): number {
    return this.#count;
  }

  /** The first ones. */
  get examples(): readonly BadRecord[] {
    return this.#examples;
  }

  /** Throws DataError when there are more than the limit allows. */
  add(record: BadRecord): void {
    this.#count++;
    if (this.#examples.length < keptExamples) this.#examples.push(record);
    if (this.#count > this.#limit) throw tooManyBadRecords(this.#count, this.#limit, this.#examples);
  }
}

export function tooManyBadRecords(count: number, limit: number, examples: readonly BadRecord[]): DataError {
  const lines = examples.map(({ where, reason }) => `  ${where}: ${reason}`).join("\n");
  const have = count === 1 ? "record cannot be used" : "records cannot be used";
  return new DataError(
    `${count} ${have}, and data.bad_record_limit is ${limit}:\n${lines}\n` +
      "Correct the data, name the right field (data.text_field, data.template), or raise data.bad_record_limit.",
    { code: "data.bad_records", details: { count, limit, examples } },
  );
}
