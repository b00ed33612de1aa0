// Which node trains on which part of the corpus. It is cut into a fixed number of virtual shards; in each epoch, every
// shard is leased to one node until that one reports it done, or is gone. A node holds few shards at a time, so that
// little is trained twice after a crash. The table stands in each version's record; the master alone changes it.

import { threefry2x32, type Words } from "../../util/rng.js";
import { compareCodePoints } from "../wire/order.js";
import { ProtocolError } from "./errors.js";
import { hash30 } from "./numbers.js";

export const DEFAULT_SHARD_COUNT = 1024;
/** Nodes that are done with an epoch go on with the next one while others still work. Beyond these they wait. */
export const MAX_OPEN_EPOCHS = 2;

export interface LeaseSettings {
  readonly shardCount: number;
  /** Unfinished shards that a node holds, unless it asks for another number. */
  readonly leaseSize: number;
}

/** An epoch with shards that are not done. What is neither done nor leased is free. */
export interface OpenEpoch {
  readonly epoch: number;
  /** Ascending. */
  readonly done: readonly number[];
  /** By node id in code point order; shards ascending, at least one. */
  readonly leases: ReadonlyMap<string, readonly number[]>;
}

export interface LeaseTable extends LeaseSettings {
  /** Consecutive epochs, oldest first, at least one. Those before are done. */
  readonly epochs: readonly OpenEpoch[];
}

export interface DoneReport {
  readonly nodeId: string;
  readonly epoch: number;
  readonly shards: readonly number[];
}

/** @throws ProtocolError `protocol.invalid_setting`. */
export function createLeases({ shardCount, leaseSize }: LeaseSettings): LeaseTable {
  for (const [name, value] of Object.entries({ shardCount, leaseSize })) {
    if (Number.isSafeInteger(value) && value >= 1) continue;
    throw new ProtocolError("invalid_setting", `${name} is ${value}, it must be an integer from 1`);
  }
  return { shardCount, leaseSize, epochs: [{ epoch: 0, done: [], leases: new Map() }] };
}

export interface LeaseChanges {
  readonly live: readonly string[];
  readonly done: readonly DoneReport[];
  /** Unfinished shards that a node wants to hold. */
  readonly wanted?: ReadonlyMap<string, number>;
}

/**
 * The table after reports, and for the nodes that are there now. Shards of nodes that are gone become free; a report
 * of one that comes back still counts if nobody else has taken over the shard.
 */
export function updateLeases(
  table: LeaseTable,
  { live, done, wanted = new Map() }: LeaseChanges,
): LeaseTable {
  const liveIds = [...new Set(live)].sort(compareCodePoints);
  let epochs = table.epochs.map((open) => {
    const state = thaw(open);
    for (const report of done) if (report.epoch === open.epoch) applyReport(state, report, table.shardCount);
    for (const nodeId of state.leases.keys()) if (!liveIds.includes(nodeId)) state.leases.delete(nodeId);
    return state;
  });
  const isDone = (state: Thawed) => state.done.size === table.shardCount;
  const firstOpen = epochs.findIndex((state) => !isDone(state));
  if (firstOpen > 0) epochs = epochs.slice(firstOpen);
  if (firstOpen === -1) epochs = [{ epoch: epochs.at(-1)!.epoch + 1, done: new Set(), leases: new Map() }];
  const sizes = new Map(liveIds.map((nodeId) => [nodeId, wanted.get(nodeId) ?? table.leaseSize]));
  grant(epochs, sizes, table.shardCount);
  return { shardCount: table.shardCount, leaseSize: table.leaseSize, epochs: epochs.map(freeze) };
}

/** What a node is to train on, in this order. Empty: nothing is leased to it, see {@link walkOrder}. */
export function leasesOf(
  { epochs, shardCount }: LeaseTable,
  nodeId: string,
): { readonly epoch: number; readonly shards: readonly number[] }[] {
  return epochs.flatMap(({ epoch, leases }) => {
    const held = new Set(leases.get(nodeId));
    if (held.size === 0) return [];
    return [{ epoch, shards: epochOrder(epoch, shardCount).filter((shard) => held.has(shard)) }];
  });
}

/** Shards of the oldest open epoch that nobody has done or holds, in an order of the node's own. */
export function freeShardsFor(
  { epochs, shardCount }: LeaseTable,
  nodeId: string,
): {
  readonly epoch: number;
  readonly shards: readonly number[];
} {
  const { epoch, done, leases } = epochs[0]!;
  const taken = new Set([...done, ...[...leases.values()].flat()]);
  return { epoch, shards: walkOrder(nodeId, epoch, shardCount).filter((shard) => !taken.has(shard)) };
}

/** All shards in an order of the node's own, for nodes without a lease: each epoch another one. */
export function walkOrder(nodeId: string, epoch: number, shardCount = DEFAULT_SHARD_COUNT): number[] {
  return shuffled([hash30(nodeId), 1], epoch, shardCount);
}

/** Order in which the shards of an epoch are given out: the same everywhere. */
function epochOrder(epoch: number, shardCount: number): number[] {
  return shuffled([0, 0], epoch, shardCount);
}

/** Fisher and Yates, with numbers that depend on key, epoch and place only. */
function shuffled(key: Words, epoch: number, count: number): number[] {
  const order = Array.from({ length: count }, (_, i) => i);
  for (let i = count - 1; i > 0; i--) {
    const [word] = threefry2x32(key, i, epoch);
    const j = Math.floor((word / 2 ** 32) * (i + 1));
    [order[i], order[j]] = [order[j]!, order[i]!];
  }
  return order;
}

interface Thawed {
  readonly epoch: number;
  readonly done: Set<number>;
  readonly leases: Map<string, Set<number>>;
}

function thaw({ epoch, done, leases }: OpenEpoch): Thawed {
  const sets = [...leases].map(([nodeId, shards]) => [nodeId, new Set(shards)] as const);
  return { epoch, done: new Set(done), leases: new Map(sets) };
}

function freeze({ epoch, done, leases }: Thawed): OpenEpoch {
  const ascending = (shards: Iterable<number>) => [...shards].sort((a, b) => a - b);
  const held = [...leases]
    .filter(([, shards]) => shards.size > 0)
    .sort(([a], [b]) => compareCodePoints(a, b))
    .map(([nodeId, shards]) => [nodeId, ascending(shards)] as const);
  return { epoch, done: ascending(done), leases: new Map(held) };
}

function applyReport({ done, leases }: Thawed, { nodeId, shards }: DoneReport, shardCount: number): void {
  for (const shard of shards) {
    if (!Number.isSafeInteger(shard) || shard < 0 || shard >= shardCount) continue;
    const holder = [...leases].find(([, held]) => held.has(shard))?.[0];
    if (holder !== undefined && holder !== nodeId) continue;
    if (holder !== undefined) leases.get(holder)!.delete(shard);
    done.add(shard);
  }
}

/** One shard at a time to whoever holds fewest and wants more, so that the last ones of an epoch are shared evenly. */
function grant(epochs: Thawed[], sizes: ReadonlyMap<string, number>, shardCount: number): void {
  const held = new Map([...sizes.keys()].map((nodeId) => [nodeId, 0]));
  for (const { leases } of epochs) {
    for (const [nodeId, shards] of leases) held.set(nodeId, held.get(nodeId)! + shards.size);
  }
  const neediest = () => {
    let best: string | undefined;
    for (const [nodeId, size] of sizes) {
      const count = held.get(nodeId)!;
      if (count < size && (best === undefined || count < held.get(best)!)) best = nodeId;
    }
    return best;
  };
  for (let index = 0; index < MAX_OPEN_EPOCHS; index++) {
    if (neediest() === undefined) return;
    epochs[index] ??= { epoch: epochs[index - 1]!.epoch + 1, done: new Set(), leases: new Map() };
    const { epoch, done, leases } = epochs[index]!;
    const taken = new Set([...done, ...[...leases.values()].flatMap((shards) => [...shards])]);
    for (const shard of epochOrder(epoch, shardCount)) {
      if (taken.has(shard)) continue;
      const nodeId = neediest();
      if (nodeId === undefined) return;
      const shards = leases.get(nodeId) ?? new Set();
      leases.set(nodeId, shards.add(shard));
      held.set(nodeId, held.get(nodeId)! + 1);
    }
  }
}
