// Seeded random ids: samples whose content depends on (seed, index) alone, whatever is asked in which order.
// For smoke runs, benchmarks and comparisons with other programs; there is nothing in it to learn.

import { MersenneTwister, seedWords, threefry2x32 } from "../util/rng.js";
import type { Dataset, Sample } from "./types.js";

export interface SyntheticOptions {
  samples: number;
  blockSize: number;
  vocabSize: number;
  seed: number;
  /**
   * `offset`: the MT19937 stream of seed + index, modulo the vocabulary (PyTorch's CPU generator draws the
   * same). `mixed`: a hash of seed, index and position, so that neighbouring seeds have nothing in common.
   */
  seeding?: "offset" | "mixed";
}

// Keeps the keys of this use apart from those of other uses of the same seed.
const mixedStream = 0x73796e74;

export class SyntheticDataset implements Dataset {
  readonly length: number;
  private readonly options: Required<SyntheticOptions>;
  private readonly generator = new MersenneTwister(0);

  constructor(options: SyntheticOptions) {
    this.options = { seeding: "offset", ...options };
    this.length = options.samples;
  }

  get(index: number): Sample {
    const { blockSize, seeding } = this.options;
    const ids = new Int32Array(blockSize + 1);
    if (seeding === "offset") this.fillOffset(ids, index);
    else this.fillMixed(ids, index);
    return { inputIds: ids.subarray(0, blockSize), labels: ids.subarray(1) };
  }

  describe(): Record<string, unknown> {
    const { samples, blockSize, vocabSize, seed, seeding } = this.options;
    return { kind: "synthetic", samples, blockSize, vocabSize, seed, seeding };
  }

  private fillOffset(ids: Int32Array, index: number): void {
    const { vocabSize, seed } = this.options;
    this.generator.reseed(seed + index);
    for (let k = 0; k < ids.length; k++) ids[k] = this.generator.nextUint32() % vocabSize;
  }

  private fillMixed(ids: Int32Array, index: number): void {
    const { vocabSize, seed } = this.options;
    const key = threefry2x32(seedWords(seed), index, mixedStream);
    for (let k = 0; k < ids.length; k++) ids[k] = threefry2x32(key, k, 0)[0] % vocabSize;
  }
}
