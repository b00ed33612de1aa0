// Where a node stands among the shards of its corpus, as plain data: those that it was given, in order; then the spare
// ones, once; then all shards in the order of its own walk, for ever. Nothing here knows of samples or files.

import type { ShardPlace, ShardRef } from "./types.js";

/** All shards of an epoch in a node's own order. */
export type ShardWalk = (node: string, epoch: number, shardCount: number) => readonly number[];

/** The beginning of a node that was given nothing. */
export function startPlace(node: string, count: number): ShardPlace {
  return { node, count, queue: [], spare: [], at: 0, walk: 0, offset: 0 };
}

/** The shard that the next sample is from. */
export function currentShard(place: ShardPlace, walk: ShardWalk): ShardRef {
  const { queue, spare, at } = place;
  return queue[at] ?? spare[at - queue.length] ?? walkedShard(place, place.walk, walk);
}

/** The `index`th shard of the node's walk. */
export function walkedShard({ node, count }: ShardPlace, index: number, walk: ShardWalk): ShardRef {
  const epoch = Math.floor(index / count);
  return [epoch, orderOf(walk, node, epoch, count)[index % count]!];
}

export function isWalking({ queue, spare, at }: ShardPlace): boolean {
  return at >= queue.length + spare.length;
}

/** The place at the beginning of the next shard. */
export function advance(place: ShardPlace): ShardPlace {
  return isWalking(place)
    ? { ...place, walk: place.walk + 1, offset: 0 }
    : { ...place, at: place.at + 1, offset: 0 };
}

/** What was finished between two places of one plan, spare shards left out: those were finished before. */
export function finishedBetween(
  from: Pick<ShardPlace, "at" | "walk">,
  to: ShardPlace,
  walk: ShardWalk,
): ShardRef[] {
  const walked = Array.from({ length: to.walk - from.walk }, (_, i) => walkedShard(to, from.walk + i, walk));
  return [...to.queue.slice(from.at, to.at), ...walked];
}

let last: { walk: ShardWalk; key: string; order: readonly number[] } | undefined;

/** Orders are asked for again and again, sample batch by sample batch. */
function orderOf(walk: ShardWalk, node: string, epoch: number, count: number): readonly number[] {
  const key = `${epoch} ${count} ${node}`;
  if (last?.walk !== walk || last.key !== key) last = { walk, key, order: walk(node, epoch, count) };
  return last.order;
}
