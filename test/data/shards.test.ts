// The order of samples in shards: each one exactly once in an epoch, whatever the sizes, and the same from wherever a
// node goes on.

import { describe, expect, it } from "vitest";
import { advance, currentShard, finishedBetween, isWalking, startPlace } from "../../src/data/shard-place.js";
import { ShardSampler, type ShardSamplerOptions, shardBounds } from "../../src/data/shard-sampler.js";
import type { DataPosition, ShardPlace } from "../../src/data/types.js";
import { DataError } from "../../src/util/errors.js";

/** Backwards, each epoch begun one shard further. */
const walk = (_node: string, epoch: number, count: number) =>
  Array.from({ length: count }, (_, i) => (2 * count - 1 - i - (epoch % count)) % count);

const range = (count: number) => Array.from({ length: count }, (_, i) => i);

function sampler(changes: Partial<ShardSamplerOptions> = {}): ShardSampler {
  return new ShardSampler({ length: 23, batchSize: 1, shuffle: true, shardCount: 5, walk, ...changes });
}

function drawn(from: ShardSampler, count: number, start: DataPosition = from.start) {
  const indices: number[] = [];
  let place = start;
  for (let i = 0; i < count; i++) {
    const draw = from.draw(place);
    indices.push(...draw.indices);
    place = draw.end;
  }
  return { indices, place };
}

const ascending = (numbers: readonly number[]) => [...numbers].sort((a, b) => a - b);
const at = (shards: ShardPlace): DataPosition => ({ epoch: 0, position: shards.offset, shards });

/** Samples and shards: dividing, not dividing, fewer samples than shards, one of either. */
const sizes = [
  [24, 6],
  [23, 5],
  [3, 8],
  [1, 4],
  [7, 1],
  [9, 9],
] as const;

describe("shards of a corpus", () => {
  it.each(sizes)(
    "%i samples in %i shards: stretches without gaps, sizes at most one apart",
    (length, count) => {
      const bounds = range(count).map((shard) => shardBounds(length, count, shard));
      expect(bounds.flatMap(([start, end]) => range(end - start).map((i) => start + i))).toEqual(
        range(length),
      );
      const lengths = bounds.map(([start, end]) => end - start);
      expect(Math.max(...lengths) - Math.min(...lengths)).toBeLessThanOrEqual(1);
    },
  );

  it.each(sizes)("%i samples in %i shards: each sample exactly once in each epoch", (length, shardCount) => {
    for (const shuffle of [true, false]) {
      const { indices } = drawn(sampler({ length, shardCount, shuffle }), 3 * length);
      for (const epoch of range(3)) {
        expect(ascending(indices.slice(epoch * length, (epoch + 1) * length))).toEqual(range(length));
      }
    }
  });

  it("hold the same samples in every epoch and on every node, each time in another order", () => {
    const samplesOf = (node: string, epoch: number) =>
      drawn(sampler(), 5, at({ ...startPlace(node, 5), queue: [[epoch, 1]] })).indices;
    const first = samplesOf("a", 0);
    expect(samplesOf("b", 0)).toEqual(first);
    const later = range(6).map((epoch) => samplesOf("a", epoch));
    for (const order of later) expect(ascending(order)).toEqual(ascending(first));
    expect(new Set(later.map(String)).size).toBeGreaterThan(1);
  });

  it("are stretches of the corpus without shuffling, in the order of the walk", () => {
    const { indices } = drawn(sampler({ length: 6, shardCount: 3, shuffle: false }), 6);
    expect(indices).toEqual([4, 5, 2, 3, 0, 1]);
  });

  it.each([1, 2, 4, 7, 30])(
    "batches of %i run on without a short one, and give the same order",
    (batchSize) => {
      const single = drawn(sampler(), 300).indices;
      const batches = drawn(sampler({ batchSize }), Math.floor(300 / batchSize));
      expect(batches.indices).toEqual(single.slice(0, batches.indices.length));
      expect(batches.indices).toHaveLength(Math.floor(300 / batchSize) * batchSize);
    },
  );

  it("tell the epoch of a batch's first sample, and of the place after it", () => {
    const { epoch, end } = sampler({ batchSize: 30 }).draw(sampler().start);
    expect([epoch, end.epoch]).toEqual([0, 1]);
  });
});

describe("a place among shards", () => {
  it.each(sizes)("%i samples in %i shards: going on from any place gives the same", (length, shardCount) => {
    const given: ShardPlace = { ...startPlace("a", shardCount), queue: [[0, 0]], spare: [[0, 0]] };
    for (const start of [
      sampler({ length, shardCount }).start,
      sampler({ length, shardCount }).settle(at(given)),
    ]) {
      const whole = drawn(sampler({ length, shardCount, batchSize: 2 }), 30, start).indices;
      for (const done of range(20)) {
        const { place } = drawn(sampler({ length, shardCount, batchSize: 2 }), done, start);
        const other = sampler({ length, shardCount, batchSize: 2 });
        const resumed = other.settle(JSON.parse(JSON.stringify(place)) as DataPosition);
        expect(drawn(other, 30 - done, resumed).indices).toEqual(whole.slice(2 * done));
      }
    }
  });

  it("goes through the queue, then the spare ones once, then walks for ever", () => {
    let place: ShardPlace = {
      ...startPlace("a", 3),
      queue: [[4, 2]],
      spare: [
        [4, 2],
        [5, 0],
      ],
      walk: 1,
    };
    const seen: string[] = [];
    for (let i = 0; i < 6; i++) {
      seen.push(`${isWalking(place) ? "walk " : ""}${currentShard(place, walk).join(":")}`);
      place = advance({ ...place, offset: 1 });
      expect(place.offset).toBe(0);
    }
    expect(seen).toEqual(["4:2", "4:2", "5:0", "walk 0:1", "walk 0:0", "walk 1:1"]);
  });

  it("counts as finished what was in the queue or the walk, not the spare ones", () => {
    const from = { at: 0, walk: 2 };
    const to: ShardPlace = { ...startPlace("a", 3), queue: [[4, 2]], spare: [[4, 1]], at: 2, walk: 4 };
    expect(finishedBetween(from, to, walk)).toEqual([
      [4, 2],
      [0, 0],
      [1, 1],
    ]);
    expect(finishedBetween({ at: 1, walk: 4 }, to, walk)).toEqual([]);
  });

  it("is begun from the first shard for a place in the plain order", () => {
    expect(sampler().settle({ epoch: 7, position: 3 })).toEqual(sampler().start);
  });

  const good = startPlace("a", 5);
  it.each([
    ["an offset beyond the shard", { ...good, offset: 6 }],
    ["a negative offset", { ...good, offset: -1 }],
    ["no shards", { ...good, count: 0 }],
    ["a shard beyond the count", { ...good, queue: [[0, 5] as const] }],
    ["a negative epoch", { ...good, spare: [[-1, 0] as const] }],
    ["a place beyond the lists", { ...good, at: 1 }],
    ["half a shard of the walk", { ...good, walk: 0.5 }],
    ["a node without a name", { ...good, node: 3 as unknown as string }],
  ])("with %s is refused", (_, place) => {
    expect(() => sampler().settle(at(place))).toThrow(DataError);
    expect(() => sampler().settle(at(place))).toThrow(/start a new run/);
  });

  it("needs a corpus with samples", () => {
    expect(() => sampler({ length: 0 })).toThrow(/no samples/);
  });
});
