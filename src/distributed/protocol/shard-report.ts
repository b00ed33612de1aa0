// What a node says about its data in the header of each delta, for the leases: which corpus it has, which shards the
// steps of this delta finished, and how many it wants to hold. A text in JSON, checked when it is read.

import type { JsonValue } from "../wire/python-json.js";
import { encodeRanges, parseRanges } from "./shard-ranges.js";

/** Key in the delta's header, behind the prefix of our own keys. */
export const SHARDS_HEADER_KEY = "shards";
/** A report of all shards, where there are as many as the configuration allows, is shorter. */
const MAX_TEXT_LENGTH = 2 ** 19;
const MAX_EPOCHS = 1024;
const MAX_SHARD_COUNT = 1_000_000;
/** Finished shards in all, over all epochs. */
const MAX_DONE = 2_000_000;

/** Which samples a node trains on: equal values, equal shards. */
export interface Corpus {
  readonly samples: number;
  /** Over what the samples depend on, in hexadecimal. */
  readonly sha256: string;
}

/** Shards that were finished, ascending, in one epoch. */
export interface DoneShards {
  readonly epoch: number;
  readonly shards: readonly number[];
}

export interface ShardReport {
  readonly corpus: Corpus;
  /** Shards that the node cuts its corpus into. */
  readonly shardCount: number;
  /** Unfinished shards that it wants to hold. */
  readonly wanted: number;
  readonly done: readonly DoneShards[];
}

export function encodeShardReport({ corpus, shardCount, wanted, done }: ShardReport): string {
  return JSON.stringify({
    corpus: corpus.sha256,
    samples: corpus.samples,
    shard_count: shardCount,
    wanted,
    done: done.map(({ epoch, shards }) => [epoch, encodeRanges(shards)]),
  });
}

/** Undefined for anything that {@link encodeShardReport} does not write: a delta counts without it, too. */
export function parseShardReport(text: string | undefined): ShardReport | undefined {
  if (text === undefined || text.length > MAX_TEXT_LENGTH) return undefined;
  let value: JsonValue;
  try {
    value = JSON.parse(text) as JsonValue;
  } catch {
    return undefined;
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  const fields = value as { readonly [key: string]: JsonValue };
  const corpus = parseCorpus({ sha256: fields.corpus ?? null, samples: fields.samples ?? null });
  const { shard_count: shardCount, wanted, done } = fields;
  if (corpus === undefined || !isPositive(shardCount) || shardCount > MAX_SHARD_COUNT) return undefined;
  if (!isPositive(wanted) || !Array.isArray(done) || done.length > MAX_EPOCHS) return undefined;
  const lists: DoneShards[] = [];
  let total = 0;
  for (const item of done) {
    if (!Array.isArray(item) || item.length !== 2) return undefined;
    const [epoch, ranges] = item as readonly JsonValue[];
    if (!Number.isSafeInteger(epoch) || (epoch as number) < 0 || typeof ranges !== "string") return undefined;
    const shards = parseRanges(ranges, shardCount);
    total += shards?.length ?? 0;
    if (shards === undefined || total > MAX_DONE) return undefined;
    lists.push({ epoch: epoch as number, shards });
  }
  return { corpus, shardCount, wanted: Math.min(wanted, shardCount), done: lists };
}

/** Undefined for what is none. */
export function parseCorpus(value: JsonValue | undefined): Corpus | undefined {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  const { samples, sha256 } = value as { readonly [key: string]: JsonValue };
  if (!isPositive(samples) || typeof sha256 !== "string" || !/^[0-9a-f]{64}$/.test(sha256)) return undefined;
  return { samples, sha256 };
}

/** By epoch, ascending, each shard once. */
export function groupShards(refs: Iterable<readonly [epoch: number, shard: number]>): DoneShards[] {
  const epochs = new Map<number, Set<number>>();
  for (const [epoch, shard] of refs) epochs.set(epoch, (epochs.get(epoch) ?? new Set()).add(shard));
  return [...epochs]
    .sort(([a], [b]) => a - b)
    .map(([epoch, shards]) => ({ epoch, shards: [...shards].sort((a, b) => a - b) }));
}

function isPositive(value: JsonValue | undefined): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 1;
}
