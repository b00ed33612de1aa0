// A node's part of sharing the data: what the record of a version gives it to train on.

import { CORPUS_KEY, type RecordFields } from "./lease-fields.js";
import { LEASES_KEY, parseLeases } from "./lease-record.js";
import { freeShardsFor, type LeaseTable, leasesOf } from "./leases.js";
import { type Corpus, type DoneShards, parseCorpus } from "./shard-report.js";

type ShardRef = readonly [epoch: number, shard: number];

export interface DataShare {
  /**
   * `leases`: what is leased to this node. `free`: the node has no lease yet, and takes what nobody has. `walk`: there
   * is nothing to go by, so that it takes all shards in an order of its own.
   */
  readonly mode: "leases" | "free" | "walk";
  /** Why there is no lease; undefined where there is one. */
  readonly reason: "no_leases" | "other_corpus" | "damaged_leases" | "not_leased" | undefined;
  /** Shards that the corpus is cut into; undefined: as the node likes. */
  readonly shardCount: number | undefined;
  /** To be trained in this order. */
  readonly queue: readonly ShardRef[];
  /** All that is leased to the node, of which it may train some again if no new lease comes. */
  readonly held: readonly ShardRef[];
}

export interface DataShareOptions {
  readonly nodeId: string;
  readonly corpus: Corpus;
  /** Shards that the node has trained and no version is known to count. */
  readonly unconfirmed: readonly DoneShards[];
  /** Shards that the corpus was cut into when those were trained: in another cut, their numbers mean other samples. */
  readonly shardCount: number;
}

/** `fields`: the keys of the version's record. */
export function dataShare(
  fields: RecordFields | undefined,
  { nodeId, corpus, unconfirmed, shardCount: cut }: DataShareOptions,
): DataShare {
  const walk = (reason: DataShare["reason"]): DataShare => ({
    mode: "walk",
    reason,
    shardCount: undefined,
    queue: [],
    held: [],
  });
  const leases = fields?.[LEASES_KEY];
  if (fields === undefined || leases === undefined) return walk("no_leases");
  const theirs = parseCorpus(fields[CORPUS_KEY]);
  if (theirs?.sha256 !== corpus.sha256 || theirs.samples !== corpus.samples) return walk("other_corpus");
  let table: LeaseTable;
  try {
    table = parseLeases(leases);
  } catch {
    return walk("damaged_leases");
  }
  const { shardCount } = table;
  const known = shardCount === cut ? unconfirmed : [];
  const trained = new Set(known.flatMap(({ epoch, shards }) => shards.map((shard) => `${epoch}:${shard}`)));
  const isOpen = ([epoch, shard]: ShardRef) => !trained.has(`${epoch}:${shard}`);
  const refs = ({ epoch, shards }: DoneShards) => shards.map((shard): ShardRef => [epoch, shard]);
  const held = leasesOf(table, nodeId).flatMap(refs);
  if (held.length > 0)
    return { mode: "leases", reason: undefined, shardCount, queue: held.filter(isOpen), held };
  const free = refs(freeShardsFor(table, nodeId)).filter(isOpen);
  return { mode: "free", reason: "not_leased", shardCount, queue: free, held: [] };
}
