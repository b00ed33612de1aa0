// The order of a node that shares its corpus with others: the samples are cut into fixed shards, and the node goes
// through those that it was given, each from its first sample to its last. Where it stands is one value, which goes into
// checkpoints; giving it other shards means to go on from another place (shard-place.ts).
//
// Batches run on from one shard, and from one epoch, into the next, so that no sample is left out and none is short.

import { DataError } from "../util/errors.js";
import { type Order, sequentialOrder, shuffledOrder } from "./order.js";
import { type Draw, emptyEpochError, isCount, type Sampler } from "./sampler.js";
import { advance, currentShard, type ShardWalk, startPlace } from "./shard-place.js";
import type { DataPosition, ShardPlace, ShardRef } from "./types.js";

export interface ShardSamplerOptions {
  /** Samples of the corpus. */
  readonly length: number;
  readonly batchSize: number;
  /**
   * Shards hold samples from everywhere, drawn by a permutation that is the same on every node and in every epoch;
   * within a shard the order is another one each epoch. False: shards are stretches of the corpus, in order.
   */
  readonly shuffle: boolean;
  /** Shards before anybody says otherwise. */
  readonly shardCount: number;
  readonly walk: ShardWalk;
}

/** Places in the permuted corpus that belong to a shard: [start, end). Sizes differ by at most one. */
export function shardBounds(length: number, shardCount: number, shard: number): [number, number] {
  // In parts, since the product of two large counts would not be exact.
  const size = Math.floor(length / shardCount);
  const longer = length % shardCount;
  const start = shard * size + Math.min(shard, longer);
  return [start, start + size + (shard < longer ? 1 : 0)];
}

export class ShardSampler implements Sampler {
  readonly start: DataPosition;
  readonly batchesPerEpoch: number;
  readonly #options: ShardSamplerOptions;
  readonly #mixed: Order;
  #order: { epoch: number; shard: number; size: number; indexAt: Order } | undefined;

  /** @throws DataError for a corpus without samples. */
  constructor(options: ShardSamplerOptions) {
    this.#options = options;
    const { length, batchSize, shuffle, shardCount } = options;
    if (length < 1) throw emptyEpochError(length, batchSize);
    this.batchesPerEpoch = Math.ceil(length / batchSize);
    this.#mixed = shuffle ? shuffledOrder(length, 0, 0) : sequentialOrder();
    this.start = this.settle(positionOf(startPlace("", shardCount), 0));
  }

  draw(position: DataPosition): Draw {
    const { batchSize } = this.#options;
    let place = this.#placeOf(position);
    const first = this.#current(place);
    const indices: number[] = [];
    while (indices.length < batchSize) {
      const entry = this.#current(place);
      const [start, end] = this.#bounds(place, entry);
      const indexAt = this.#orderIn(entry, end - start);
      const count = Math.min(batchSize - indices.length, end - start - place.offset);
      for (let i = 0; i < count; i++) indices.push(this.#mixed(start + indexAt(place.offset + i)));
      place = this.#skipFinished({ ...place, offset: place.offset + count });
    }
    return { epoch: first[0], indices, end: positionOf(place, this.#current(place)[0]) };
  }

  settle(position: DataPosition): DataPosition {
    const place = this.#placeOf(position);
    const problem = placeProblem(place);
    const size = problem === undefined ? this.#sizeOf(place) : 0;
    if (problem !== undefined || place.offset > size) {
      throw new DataError(
        `Cannot continue at the saved place in the shards of the data: ${problem ?? `a shard has ${size} samples, ` + `${place.offset} of it are done`}. ` +
          "The data or the block size changed since it was saved; start a new run.",
        { code: "data.position_out_of_range", details: { samples: this.#options.length } },
      );
    }
    const settled = this.#skipFinished(place);
    return positionOf(settled, this.#current(settled)[0]);
  }

  /** A place that was saved in the plain order has no counterpart: the shards are begun from the first. */
  #placeOf({ shards }: DataPosition): ShardPlace {
    return shards ?? startPlace("", this.#options.shardCount);
  }

  #current(place: ShardPlace): ShardRef {
    return currentShard(place, this.#options.walk);
  }

  #bounds({ count }: ShardPlace, [, shard]: ShardRef): [number, number] {
    return shardBounds(this.#options.length, count, shard);
  }

  #sizeOf(place: ShardPlace): number {
    const [start, end] = this.#bounds(place, this.#current(place));
    return end - start;
  }

  /** Also past shards without samples, of which a small corpus has many. */
  #skipFinished(place: ShardPlace): ShardPlace {
    let next = place;
    while (next.offset >= this.#sizeOf(next)) next = advance(next);
    return next;
  }

  #orderIn([epoch, shard]: ShardRef, size: number): Order {
    if (this.#order?.epoch !== epoch || this.#order.shard !== shard || this.#order.size !== size) {
      const isMixed = this.#options.shuffle && size > 1;
      const indexAt = isMixed ? shuffledOrder(size, shard, epoch) : sequentialOrder();
      this.#order = { epoch, shard, size, indexAt };
    }
    return this.#order.indexAt;
  }
}

function positionOf(shards: ShardPlace, epoch: number): DataPosition {
  return { epoch, position: shards.offset, shards };
}

/** What is wrong with a place from a file; undefined if nothing is. */
function placeProblem({ node, count, queue, spare, at, walk, offset }: ShardPlace): string | undefined {
  if (typeof node !== "string") return "its node has no name";
  if (!isCount(count) || count < 1) return `it has ${String(count)} shards`;
  for (const list of [queue, spare]) {
    const isGood = Array.isArray(list) && list.every((ref) => isShardRef(ref, count));
    if (!isGood) return "its shards are no pairs of epoch and shard";
  }
  return isCount(at) && isCount(walk) && isCount(offset) && at <= queue.length + spare.length
    ? undefined
    : `it is at ${String(at)}, ${String(walk)}, ${String(offset)}`;
}

function isShardRef(ref: unknown, count: number): ref is ShardRef {
  return Array.isArray(ref) && ref.length === 2 && isCount(ref[0]) && isCount(ref[1]) && ref[1] < count;
}
