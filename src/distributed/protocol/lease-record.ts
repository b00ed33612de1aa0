// The table of leases as it stands in a version's record, under its own key.

import { quote } from "../wire/errors.js";
import { peerNodeIdProblem } from "../wire/node-id.js";
import { compareCodePoints } from "../wire/order.js";
import type { JsonValue } from "../wire/python-json.js";
import { ProtocolError } from "./errors.js";
import type { LeaseTable, OpenEpoch } from "./leases.js";
import { encodeRanges, parseRanges } from "./shard-ranges.js";

/** Key in the version record. */
export const LEASES_KEY = "leases";
/** A record is read by every node at every version. */
const MAX_SHARD_COUNT = 1_000_000;

export function encodeLeases({ shardCount, leaseSize, epochs }: LeaseTable): JsonValue {
  return {
    shard_count: shardCount,
    lease_size: leaseSize,
    epochs: epochs.map(({ epoch, done, leases }) => ({
      epoch,
      done: encodeRanges(done),
      leases: Object.fromEntries([...leases].map(([nodeId, shards]) => [nodeId, encodeRanges(shards)])),
    })),
  };
}

/**
 * Reads what {@link encodeLeases} gave, after a way through JSON.
 * @throws ProtocolError `protocol.invalid_leases`.
 */
export function parseLeases(value: JsonValue, file?: string): LeaseTable {
  const fail = (message: string): never => {
    throw new ProtocolError("invalid_leases", `${LEASES_KEY}${message}`, { file });
  };
  if (!isObject(value)) return fail(" must be an object");
  const { shard_count: shardCount, lease_size: leaseSize, epochs: list } = value;
  if (!isCount(shardCount) || shardCount < 1 || shardCount > MAX_SHARD_COUNT) {
    return fail(`.shard_count must be an integer from 1 to ${MAX_SHARD_COUNT}`);
  }
  if (!isCount(leaseSize) || leaseSize < 1) return fail(".lease_size must be an integer from 1");
  if (!Array.isArray(list) || list.length === 0) return fail(".epochs must be a list, and not empty");
  const epochs = list.map((item: JsonValue, index): OpenEpoch => {
    const failHere = (message: string) => fail(`.epochs[${index}]${message}`);
    if (!isObject(item)) return failHere(" must be an object");
    const { epoch, done, leases } = item;
    if (!isCount(epoch)) return failHere(".epoch must be an integer from 0");
    if (!isObject(leases)) return failHere(".leases must be an object");
    const taken = new Set<number>();
    const read = (text: JsonValue | undefined, where: string): number[] => {
      const shards = typeof text === "string" ? parseRanges(text, shardCount) : undefined;
      if (shards === undefined)
        return failHere(`${where} must be ranges such as "0-3,7" below ${shardCount}`);
      const twice = shards.find((shard) => taken.has(shard));
      if (twice !== undefined) return failHere(`${where}: shard ${twice} is given twice`);
      for (const shard of shards) taken.add(shard);
      return shards;
    };
    const doneShards = read(done, ".done");
    const held = Object.entries(leases)
      .sort(([a], [b]) => compareCodePoints(a, b))
      .map(([nodeId, text]) => {
        const problem = peerNodeIdProblem(nodeId);
        if (problem !== undefined) return failHere(`.leases: node id ${quote(nodeId)} ${problem}`);
        const shards = read(text, `.leases of ${quote(nodeId)}`);
        if (shards.length === 0) return failHere(`.leases of ${quote(nodeId)} must not be empty`);
        return [nodeId, shards] as const;
      });
    return { epoch, done: doneShards, leases: new Map(held) };
  });
  const gap = epochs.findIndex(({ epoch }, i) => i > 0 && epoch !== epochs[i - 1]!.epoch + 1);
  if (gap !== -1) return fail(`.epochs[${gap}].epoch must follow the one before`);
  return { shardCount, leaseSize, epochs };
}

function isObject(value: JsonValue | undefined): value is { readonly [key: string]: JsonValue } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isCount(value: JsonValue | undefined): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
