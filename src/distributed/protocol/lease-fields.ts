// The master's part of sharing the data: which leases stand in the record of the next version. A function of the plan
// and of the record before, so that a master that was started again, or took over, goes on without a state of its own,
// and a round that is planned twice gives the same leases.
//
// Leases are over one corpus, which the record names: the one that most live nodes have, the present one if others have
// as many. Nodes with other data get no leases and train on all of theirs. A node is live if a delta of it was in the
// sum of one of the last versions; how many depends on how often it used to send. A shard counts as done when a delta
// that was trained on it is in a sum; that of a refused delta stays with its node, which trains on it again.

import { compareCodePoints } from "../wire/order.js";
import type { JsonValue } from "../wire/python-json.js";
import { encodeLeases, LEASES_KEY, parseLeases } from "./lease-record.js";
import {
  createLeases,
  DEFAULT_SHARD_COUNT,
  type DoneReport,
  type LeaseTable,
  MAX_OPEN_EPOCHS,
  updateLeases,
} from "./leases.js";
import type { RoundPlan } from "./master-contract.js";
import { type Corpus, parseCorpus, parseShardReport, type ShardReport } from "./shard-report.js";

/** Keys in the version record, besides that of the leases. */
export const CORPUS_KEY = "corpus";
export const LEASE_NODES_KEY = "lease_nodes";

/** Versions without a delta after which a node that used to be in each of them is gone. */
const PATIENCE_VERSIONS = 8;
/** Of a node that is seldom in one: this many times its last pause. */
const PATIENCE_FACTOR = 4;
/** However seldom. Beyond this nothing is remembered of a node. */
const MAX_PATIENCE_VERSIONS = 64;
/** Share of the shards that a node holds which does not say how many it wants: one of so many. */
const DEFAULT_LEASES = 16;
/** Nodes that the record remembers. */
const MAX_NODES = 4096;

export type RecordFields = Readonly<Record<string, JsonValue>>;

export interface LeaseFieldsOptions {
  /** Shards that a corpus is cut into; a corpus that has leases already keeps its number. Default 1,024. */
  readonly shardCount?: number;
}

interface LeaseNode {
  /** Newest version with a delta of it in the sum. */
  readonly seen: number;
  /** Versions between that one and the one before. */
  readonly gap: number;
  readonly wanted: number;
  readonly corpus: Corpus;
}

/**
 * For `AggregatorOptions.recordFields`.
 * @throws ProtocolError `protocol.invalid_setting`.
 */
export function leaseFields({ shardCount = DEFAULT_SHARD_COUNT }: LeaseFieldsOptions = {}) {
  const fresh = createLeases({ shardCount, leaseSize: Math.ceil(shardCount / DEFAULT_LEASES) });
  return (plan: Pick<RoundPlan, "outerStep" | "deltas">, earlier: RecordFields): RecordFields => {
    const { outerStep } = plan;
    const reports = plan.deltas.flatMap(({ nodeId, shards }) => {
      const report = parseShardReport(shards);
      return report === undefined ? [] : [{ nodeId, report }];
    });
    const nodes = nodesAfter(parseNodes(earlier[LEASE_NODES_KEY]), reports, outerStep);
    if (nodes.size === 0) return {};
    const present = parseCorpus(earlier[CORPUS_KEY]);
    const live = [...nodes].filter(([, node]) => isLive(node, outerStep));
    const corpus = corpusOf(live, present) ?? present;
    if (corpus === undefined) return {};
    const members = live.filter(([, node]) => isSame(node.corpus, corpus));
    const table = (isSame(corpus, present) && tableIn(earlier)) || fresh;
    const done = reports
      .filter(({ report }) => isSame(report.corpus, corpus) && report.shardCount === table.shardCount)
      .flatMap(({ nodeId, report }) => report.done.map((shards): DoneReport => ({ nodeId, ...shards })));
    // However much a node asks for: its even part of what may be open, so that the others get theirs.
    const most = MAX_OPEN_EPOCHS * Math.ceil(table.shardCount / Math.max(1, members.length));
    const leases = updateLeases(table, {
      live: members.map(([nodeId]) => nodeId),
      done,
      wanted: new Map(members.map(([nodeId, { wanted }]) => [nodeId, Math.min(wanted, most)])),
    });
    return {
      [CORPUS_KEY]: { ...corpus },
      [LEASE_NODES_KEY]: encodeNodes(nodes),
      [LEASES_KEY]: encodeLeases(leases),
    };
  };
}

function isLive({ seen, gap }: LeaseNode, outerStep: number): boolean {
  const patience = Math.min(MAX_PATIENCE_VERSIONS, Math.max(PATIENCE_VERSIONS, PATIENCE_FACTOR * gap));
  return outerStep - seen < patience;
}

function nodesAfter(
  before: ReadonlyMap<string, LeaseNode>,
  reports: readonly { readonly nodeId: string; readonly report: ShardReport }[],
  outerStep: number,
): Map<string, LeaseNode> {
  const nodes = new Map(before);
  for (const { nodeId, report } of reports) {
    const seen = before.get(nodeId)?.seen ?? outerStep - 1;
    const gap = Math.max(1, outerStep - seen);
    nodes.set(nodeId, { seen: outerStep, gap, wanted: report.wanted, corpus: report.corpus });
  }
  const kept = [...nodes]
    .filter(([, { seen }]) => seen <= outerStep && outerStep - seen < MAX_PATIENCE_VERSIONS)
    .sort(([a, { seen: aSeen }], [b, { seen: bSeen }]) => bSeen - aSeen || compareCodePoints(a, b));
  return new Map(kept.slice(0, MAX_NODES));
}

/** The corpus of most nodes. */
function corpusOf(
  nodes: readonly (readonly [string, LeaseNode])[],
  present: Corpus | undefined,
): Corpus | undefined {
  const counts = new Map<string, { readonly corpus: Corpus; count: number }>();
  for (const [, { corpus }] of nodes) {
    const key = `${corpus.sha256} ${corpus.samples}`;
    const entry = counts.get(key) ?? { corpus, count: 0 };
    entry.count += 1;
    counts.set(key, entry);
  }
  const [best] = [...counts.values()].sort(
    (a, b) =>
      b.count - a.count ||
      Number(isSame(b.corpus, present)) - Number(isSame(a.corpus, present)) ||
      compareCodePoints(a.corpus.sha256, b.corpus.sha256),
  );
  return best?.corpus;
}

function isSame(a: Corpus, b: Corpus | undefined): boolean {
  return a.sha256 === b?.sha256 && a.samples === b.samples;
}

/** A damaged table is no reason to stop: what it said is done is trained once more. */
function tableIn(fields: RecordFields): LeaseTable | undefined {
  try {
    return fields[LEASES_KEY] === undefined ? undefined : parseLeases(fields[LEASES_KEY]);
  } catch {
    return undefined;
  }
}

function encodeNodes(nodes: ReadonlyMap<string, LeaseNode>): JsonValue {
  return Object.fromEntries(
    [...nodes].map(([nodeId, { seen, gap, wanted, corpus }]) => [
      nodeId,
      { corpus: corpus.sha256, gap, samples: corpus.samples, seen, wanted },
    ]),
  );
}

/** Entries that are none are left out, for the same reason. */
function parseNodes(value: JsonValue | undefined): Map<string, LeaseNode> {
  const nodes = new Map<string, LeaseNode>();
  if (typeof value !== "object" || value === null || Array.isArray(value)) return nodes;
  for (const [nodeId, entry] of Object.entries(value as RecordFields)) {
    if (typeof entry !== "object" || entry === null || Array.isArray(entry)) continue;
    const { seen, gap, wanted, corpus: sha256 = null, samples = null } = entry as RecordFields;
    const corpus = parseCorpus({ sha256, samples });
    const counts = [seen, gap, wanted];
    if (corpus === undefined || !counts.every((n) => Number.isSafeInteger(n) && (n as number) >= 0)) continue;
    nodes.set(nodeId, {
      seen: seen as number,
      gap: gap as number,
      wanted: Math.max(1, wanted as number),
      corpus,
    });
  }
  return nodes;
}
