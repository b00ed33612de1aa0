// What a node's account of its shards makes of a restart: of deltas that were taken after the checkpoint, decided in the
// meantime, or lost with the node's files.

import type { DataLoader, DataPosition } from "speedtronic/data";
import { describe, expect, test } from "vitest";
import { ShardSampler } from "../../src/data/shard-sampler.js";
import { encodeLeases, walkOrder } from "../../src/distributed/protocol/index.js";
import { parseShardReport, SHARDS_HEADER_KEY } from "../../src/distributed/protocol/shard-report.js";
import { ShardTracker } from "../../src/train/shard-tracker.js";

const corpus = { samples: 40, sha256: "a".repeat(64) };
const shardCount = 10;
const sampler = new ShardSampler({
  length: corpus.samples,
  batchSize: 1,
  shuffle: true,
  shardCount,
  walk: walkOrder,
});

/** A node as its checkpoint holds it. */
interface Saved {
  readonly place: DataPosition;
  readonly state?: ReturnType<ShardTracker["state"]>;
}

function open({ place, state }: Saved = { place: sampler.start }) {
  let now = place;
  const loader = {
    position: () => now,
    seek: (next: DataPosition) => {
      now = sampler.settle(next);
    },
  } as DataLoader;
  const tracker = new ShardTracker(
    { loader, corpus, nodeId: "a", shardCount, samplesPerRound: 4, emit: () => undefined },
    state,
  );
  tracker.start();
  return {
    tracker,
    train: (samples: number) => {
      for (let i = 0; i < samples; i++) now = sampler.draw(now).end;
    },
    save: (): Saved => JSON.parse(JSON.stringify({ place: now, state: tracker.state() })),
    place: () => now.shards!,
    /** Shards that the header of the next delta says are done. */
    done: (sequence: number, pending: readonly number[]) =>
      parseShardReport(tracker.headerFields(sequence, pending)[SHARDS_HEADER_KEY])!.done.flatMap(
        ({ shards }) => shards,
      ),
    /** A version of which the node has leases of its own, with what it decides on left out of `kept`. */
    install: (kept: readonly number[], shards: readonly number[], done: readonly number[] = []) => {
      const leases = encodeLeases({
        shardCount,
        leaseSize: 4,
        epochs: [{ epoch: 0, done, leases: new Map([["a", shards]]) }],
      });
      const seen = { outerStep: 1, revision: "", modelFile: "", modelSha256: undefined, ledger: undefined };
      tracker.versionInstalled({ ...seen, fields: { corpus: { ...corpus }, leases } }, kept);
    },
  };
}

/** A node that holds shards 0 to 5, has told of one in delta 1, and has finished another and half of a third since. */
function workingNode() {
  const node = open();
  node.install([], [0, 1, 2, 3, 4, 5]);
  const order = node.place().queue.map(([, shard]) => shard);
  node.train(4);
  expect(node.done(1, [])).toEqual([order[0]]);
  node.train(6);
  return { node, order, saved: node.save() };
}

const sorted = (shards: readonly number[]) => [...shards].sort((a, b) => a - b);
const queued = ({ queue }: { readonly queue: readonly (readonly [number, number])[] }) =>
  sorted(queue.map(([, shard]) => shard));

describe("a node that starts again", () => {
  test("goes on as if nothing had been where its progress is still to be sent", () => {
    const { order, saved } = workingNode();
    const again = open(saved);
    again.tracker.restarted([1], "open");
    expect(again.place()).toEqual(saved.place.shards);
    expect(again.done(2, [1])).toEqual([order[1]]);
  });

  test("does not tell again of what a later delta holds, and trains it again if that one is refused", () => {
    const { order, saved } = workingNode();
    const again = open(saved);
    again.tracker.restarted([1, 2], 2);
    again.train(2);
    expect(again.done(3, [1, 2])).toEqual([order[2]]);
    // Versions decide on 2 without counting it; the others are under way.
    again.install([1, 3], [0, 1, 2, 3, 4, 5]);
    expect(queued(again.place())).toEqual(sorted([order[1]!, ...order.slice(3)]));
  });

  test("leaves what was decided in the meantime to the record", () => {
    const { order, saved } = workingNode();
    const again = open(saved);
    again.tracker.restarted([], 2);
    expect(again.done(3, [])).toEqual([]);
    again.install(
      [3],
      [0, 1, 2, 3, 4, 5].filter((shard) => shard !== order[1]),
      [order[1]!],
    );
    expect(queued(again.place())).toEqual(sorted([order[0]!, ...order.slice(2)]));
  });

  test("trains again what its files held that are gone, the shard under way from its beginning", () => {
    const { order, saved } = workingNode();
    expect(saved.place.shards!.offset).toBe(2);
    const again = open(saved);
    again.tracker.restarted([], "lost");
    expect(again.place()).toMatchObject({ at: 2, offset: 0 });
    expect(again.done(1, [])).toEqual([]);
    again.install([1], [0, 1, 2, 3, 4, 5]);
    expect(queued(again.place())).toEqual(sorted(order));
  });
});
