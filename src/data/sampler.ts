// Which samples come next, as a pure function of a place in the stream: what a loader asks before it reads anything.
// Here the plain order, epoch after epoch over all samples; the one in shards is shard-sampler.ts.

import { DataError } from "../util/errors.js";
import { type Order, sequentialOrder, shuffledOrder } from "./order.js";
import type { DataPosition } from "./types.js";

/** The samples of one batch. */
export interface Draw {
  /** Of its first sample. */
  readonly epoch: number;
  readonly indices: readonly number[];
  /** The place after them. */
  readonly end: DataPosition;
}

/** An order of samples without an end. Equal places give equal draws. */
export interface Sampler {
  readonly start: DataPosition;
  readonly batchesPerEpoch: number;
  draw(place: DataPosition): Draw;
  /** The place to go on from for one that came from outside. Throws DataError if there is none. */
  settle(place: DataPosition): DataPosition;
}

export interface EpochSamplerOptions {
  /** Samples of an epoch. */
  readonly length: number;
  readonly batchSize: number;
  readonly shuffle: boolean;
  readonly dropLast: boolean;
  readonly seed: number;
}

/**
 * All samples in each epoch. A batch never mixes epochs: the last one of an epoch is short, or left out with
 * `dropLast`.
 */
export class EpochSampler implements Sampler {
  readonly start: DataPosition = { epoch: 0, position: 0 };
  readonly batchesPerEpoch: number;
  readonly #options: EpochSamplerOptions;
  #order: { epoch: number; indexAt: Order } | undefined;

  /** @throws DataError if an epoch would be without a batch. */
  constructor(options: EpochSamplerOptions) {
    this.#options = options;
    const { length, batchSize, dropLast } = options;
    const batches = length / batchSize;
    this.batchesPerEpoch = dropLast ? Math.floor(batches) : Math.ceil(batches);
    if (this.batchesPerEpoch < 1) throw emptyEpochError(length, batchSize);
  }

  draw({ epoch, position }: DataPosition): Draw {
    const { batchSize, length } = this.#options;
    const count = Math.min(batchSize, length - position);
    const indexAt = this.#orderOf(epoch);
    return {
      epoch,
      indices: Array.from({ length: count }, (_, i) => indexAt(position + i)),
      end: this.#skipEmptyRest({ epoch, position: position + count }),
    };
  }

  settle({ epoch, position }: DataPosition): DataPosition {
    const { length } = this.#options;
    if (!isCount(epoch) || !isCount(position) || position > length) {
      throw new DataError(
        `Cannot continue at epoch ${epoch}, sample ${position}: an epoch of this data has ` +
          `${length} samples. The data or the block size changed since the position was saved; start a new run.`,
        { code: "data.position_out_of_range", details: { epoch, position, samples: length } },
      );
    }
    return this.#skipEmptyRest({ epoch, position });
  }

  #orderOf(epoch: number): Order {
    if (this.#order?.epoch !== epoch) {
      const { shuffle, length, seed } = this.#options;
      const indexAt = shuffle ? shuffledOrder(length, seed, epoch) : sequentialOrder();
      this.#order = { epoch, indexAt };
    }
    return this.#order.indexAt;
  }

  #skipEmptyRest({ epoch, position }: DataPosition): DataPosition {
    const { length, batchSize, dropLast } = this.#options;
    const isOver = length - position < (dropLast ? batchSize : 1);
    return isOver ? { epoch: epoch + 1, position: 0 } : { epoch, position };
  }
}

export function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

export function emptyEpochError(samples: number, batchSize: number): DataError {
  if (samples === 0) {
    return new DataError("The dataset has no samples. Give it some data, or name another source.", {
      code: "data.empty_epoch",
      details: { samples, batchSize },
    });
  }
  return new DataError(
    `An epoch has no full batch: ${samples} samples for data.micro_batch_size ${batchSize} with ` +
      `data.drop_last true. Set data.micro_batch_size to at most ${samples}, or data.drop_last to false.`,
    { code: "data.empty_epoch", details: { samples, batchSize } },
  );
}
