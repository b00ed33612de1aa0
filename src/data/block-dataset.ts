// Cuts a range of a token source into samples of one block each. By default neighbours share one id, so that
// each id of the range but the first is a label exactly once and no transition is lost.

import type { Ids, TokenSource } from "./token-source.js";
import type { Dataset, Sample } from "./types.js";

export interface BlockOptions {
  source: TokenSource;
  /** Ids [start, end) of the source belong to this dataset. */
  start: number;
  end: number;
  /** Input ids per sample. */
  blockSize: number;
  /** `shared`: stride blockSize. `disjoint`: groups of blockSize + 1 ids that share nothing. */
  layout?: "shared" | "disjoint";
  /** Whether what is left at the end (1 to blockSize − 1 transitions) becomes a shorter sample. */
  keepShort?: boolean;
}

export class BlockDataset implements Dataset {
  readonly length: number;
  private readonly options: Required<BlockOptions>;
  private readonly stride: number;

  constructor(options: BlockOptions) {
    const { start, end, blockSize } = options;
    this.options = { layout: "shared", keepShort: false, ...options };
    this.stride = this.options.layout === "shared" ? blockSize : blockSize + 1;

    const size = end - start;
    const full = Math.max(0, Math.floor((size - 1 - blockSize) / this.stride) + 1);
    const hasShort = size - full * this.stride >= 2;
    this.length = full + (this.options.keepShort && hasShort ? 1 : 0);
  }

  get(index: number): Sample | Promise<Sample> {
    const { source, start, end, blockSize } = this.options;
    const first = start + index * this.stride;
    const ids = source.read(first, Math.min(first + blockSize + 1, end));
    return ids instanceof Promise ? ids.then(shiftedSample) : shiftedSample(ids);
  }

  describe(): Record<string, unknown> {
    const { source, start, end, blockSize, layout } = this.options;
    return { kind: "text", ...source.describe(), start, end, blockSize, layout, samples: this.length };
  }
}

function shiftedSample(ids: Ids): Sample {
  const copy = new Int32Array(ids);
  return { inputIds: copy.subarray(0, copy.length - 1), labels: copy.subarray(1) };
}
