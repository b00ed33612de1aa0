// Nodes that share a corpus, without weights: each trains the samples that its loader gives, tells what it finished in
// the header of its deltas, and follows the leases of the versions that it installs. Counts who trained what, and what
// of it is in a sum. Leases, reports, trackers and order of samples are those of the product.

import type { DataLoader, DataPosition } from "speedtronic/data";
import type { JsonObject, JsonValue } from "../../../src/checkpoint/content.js";
import { currentShard } from "../../../src/data/shard-place.js";
import { ShardSampler } from "../../../src/data/shard-sampler.js";
import { parseLeases, walkOrder } from "../../../src/distributed/protocol/index.js";
import { leaseFields, type RecordFields } from "../../../src/distributed/protocol/lease-fields.js";
import { ShardTracker } from "../../../src/train/shard-tracker.js";

/** A sample that was trained once. */
export interface Trained {
  readonly node: string;
  readonly round: number;
  readonly mode: string;
  readonly epoch: number;
  readonly shard: number;
  readonly index: number;
}

interface Delta {
  readonly node: string;
  readonly sequence: number;
  readonly arrives: number;
  readonly shards: string;
  readonly samples: readonly Trained[];
}

export interface FleetOptions {
  readonly samples: number;
  readonly shardCount: number;
  /** If the master's configuration has another number. */
  readonly masterShardCount?: number;
  /** From 0 to below 1. */
  readonly random: () => number;
}

const json = <T>(value: T) => JSON.parse(JSON.stringify(value)) as T;

export class DataNode {
  readonly pending: number[] = [];
  mode = "walk";
  installed = 0;
  #place: DataPosition;
  #unsent: Trained[] = [];
  #sequence = 0;
  #tracker!: ShardTracker;
  readonly #sampler: ShardSampler;
  #saved: { state: JsonObject; place: DataPosition; unsent: Trained[]; sequence: number } | undefined;

  constructor(
    readonly id: string,
    readonly pace: number,
    private readonly fleet: DataFleet,
  ) {
    const { samples, shardCount } = fleet.options;
    this.#sampler = new ShardSampler({
      length: samples,
      batchSize: 1,
      shuffle: true,
      shardCount,
      walk: walkOrder,
    });
    this.#place = this.#sampler.start;
    this.#open();
  }

  get place(): DataPosition {
    return this.#place;
  }

  train(round: number): void {
    for (let i = 0; i < this.pace; i++) {
      const [epoch, shard] = currentShard(this.#place.shards!, walkOrder);
      const { indices, end } = this.#sampler.draw(this.#place);
      const { id: node, mode } = this;
      const trained = { node, round, mode, epoch, shard, index: indices[0]! };
      this.#unsent.push(trained);
      this.fleet.trained.push(trained);
      this.#place = end;
    }
  }

  send(arrives: number): void {
    const sequence = this.#sequence++;
    const header = this.#tracker.headerFields(sequence, this.pending);
    const delta = { node: this.id, sequence, arrives, shards: header.shards!, samples: this.#unsent };
    this.fleet.underWay.push(delta);
    this.pending.push(sequence);
    this.#unsent = [];
  }

  install(): void {
    const { outerStep, fields } = this.fleet;
    if (outerStep === this.installed) return;
    this.installed = outerStep;
    const kept = this.pending.filter((sequence) => !this.fleet.decided.has(`${this.id} ${sequence}`));
    this.pending.splice(0, Number.POSITIVE_INFINITY, ...kept);
    const seen = { outerStep, revision: "", modelFile: "", modelSha256: undefined, ledger: undefined };
    this.#tracker.versionInstalled({ ...seen, fields: json(fields) }, kept);
  }

  save(): void {
    const unsent = this.#unsent;
    this.#saved = json({
      state: this.#tracker.state(),
      place: this.#place,
      unsent,
      sequence: this.#sequence,
    });
  }

  /** What was sent stays sent; the rest is as it was saved. With `loses`, what was not sent at that time is gone. */
  restart({ loses = false } = {}): void {
    const { place = this.#sampler.start, unsent = [], state, sequence = 0 } = this.#saved ?? {};
    const progress = loses ? "lost" : sequence < this.#sequence ? sequence : "open";
    this.#place = place;
    this.#unsent = progress === "open" ? unsent : [];
    this.#open(state);
    if (state !== undefined) this.#tracker.restarted(this.pending, progress);
    this.installed = 0;
    this.install();
  }

  #open(saved?: JsonValue): void {
    const { samples } = this.fleet.options;
    this.#tracker = new ShardTracker(
      {
        loader: {
          position: () => this.#place,
          seek: (place: DataPosition) => {
            this.#place = this.#sampler.settle(place);
          },
        } as DataLoader,
        corpus: { samples, sha256: "a".repeat(64) },
        nodeId: this.id,
        shardCount: this.fleet.options.shardCount,
        samplesPerRound: this.pace,
        emit: (_, { mode }) => {
          this.mode = String(mode);
        },
      },
      saved,
    );
    this.#tracker.start();
  }
}

export class DataFleet {
  readonly nodes = new Map<string, DataNode>();
  readonly trained: Trained[] = [];
  readonly underWay: Delta[] = [];
  readonly decided = new Set<string>();
  /** `epoch:sample` of all that is in a sum. */
  readonly counted = new Set<string>();
  /** The most shards that a node ever held. */
  readonly largestLease = new Map<string, number>();
  fields: RecordFields = {};
  outerStep = 0;
  round = 0;
  readonly #plan: ReturnType<typeof leaseFields>;

  constructor(readonly options: FleetOptions) {
    this.#plan = leaseFields({ shardCount: options.masterShardCount ?? options.shardCount });
  }

  join(id: string, pace: number): DataNode {
    const node = new DataNode(id, pace, this);
    this.nodes.set(id, node);
    node.install();
    return node;
  }

  /** Everybody trains and sends; the master adds up what has arrived; whoever is quick installs that at once. */
  play(): void {
    this.round += 1;
    const { random } = this.options;
    for (const node of this.nodes.values()) {
      if (random() < 0.3) node.install();
      node.train(this.round);
      if (random() < 0.3) node.save();
      node.send(this.round + (random() < 0.3 ? 1 : 0));
      if (random() < 0.3) node.save();
    }
    this.publish();
    for (const node of this.nodes.values()) if (random() < 0.7) node.install();
  }

  publish(): void {
    const arrived = this.underWay.filter(({ arrives }) => arrives <= this.round);
    if (arrived.length === 0) return;
    for (const delta of arrived) {
      this.underWay.splice(this.underWay.indexOf(delta), 1);
      this.decided.add(`${delta.node} ${delta.sequence}`);
      for (const { epoch, index } of delta.samples) this.counted.add(`${epoch}:${index}`);
    }
    this.outerStep += 1;
    const deltas = arrived.map(({ node, sequence, shards }) => ({
      path: `${node}/${sequence}`,
      nodeId: node,
      contentId: "",
      sha256: "",
      weight: 1,
      shards,
    }));
    this.fields = json(this.#plan({ outerStep: this.outerStep, deltas }, this.fields));
    const held = new Map<string, number>();
    for (const { leases } of this.table.epochs) {
      for (const [id, shards] of leases) held.set(id, (held.get(id) ?? 0) + shards.length);
    }
    for (const [id, count] of held) {
      this.largestLease.set(id, Math.max(this.largestLease.get(id) ?? 0, count));
    }
  }

  get table() {
    return parseLeases(this.fields.leases ?? null);
  }

  /** Samples of finished epochs that no sum has. */
  leftOut(): string[] {
    const open = this.table.epochs[0]!.epoch;
    const all = Array.from({ length: open * this.options.samples }, (_, i) => {
      return `${Math.floor(i / this.options.samples)}:${i % this.options.samples}`;
    });
    return all.filter((key) => !this.counted.has(key));
  }

  /** Shards, as `epoch:shard`, of which two nodes trained a sample from that round on. */
  shared(fromRound: number): Map<string, Set<string>> {
    const nodesOf = new Map<string, Set<string>>();
    for (const { round, epoch, shard, node } of this.trained) {
      const key = `${epoch}:${shard}`;
      if (round >= fromRound) nodesOf.set(key, (nodesOf.get(key) ?? new Set()).add(node));
    }
    return new Map([...nodesOf].filter(([, nodes]) => nodes.size > 1));
  }
}
