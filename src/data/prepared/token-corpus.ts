// A row of ids that is cut into documents: what tokenised text is, wherever it lies.

import type { TokenSource } from "../token-source.js";

export interface TokenCorpus extends TokenSource {
  /** Ids below this occur, and no others. */
  readonly vocabSize: number;
  /** The id that ends every document, or null. */
  readonly endOfText: number | null;
  /** Where each document begins, ascending, and at the end the length: one number more than documents. */
  readonly documentStarts: Float64Array;
}
