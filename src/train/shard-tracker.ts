// A node's data where it is shared with others: keeps count of the shards that it has trained, tells them in the header
// of each delta, and goes on with other shards when an installed version says so. Between two local steps only.
//
// Which deltas hold which shards is remembered until a version decides on them: until then they are not trained again,
// though the record still leases them to this node. Those of a refused delta are, and those of a delta that got lost.
// State and place in the data go into one checkpoint and belong together.

import type { JsonObject, JsonValue } from "../checkpoint/content.js";
import { finishedBetween, isWalking, startPlace, walkedShard } from "../data/shard-place.js";
import type { DataLoader, ShardPlace, ShardRef } from "../data/types.js";
import type { SharedData } from "../distributed/node/worker-driver.js";
import { type DataShare, dataShare } from "../distributed/protocol/data-share.js";
import { walkOrder } from "../distributed/protocol/leases.js";
import {
  type Corpus,
  encodeShardReport,
  groupShards,
  SHARDS_HEADER_KEY,
} from "../distributed/protocol/shard-report.js";
import type { SeenVersion } from "../distributed/protocol/worker-contract.js";

/** Rounds of a node's work that it wants to hold: a delta and the version that counts it are under way for some. */
const ROUNDS_HELD = 4;
/** What was used up between two versions, this many times, is wanted at least. */
const USE_FACTOR = 2;

export interface ShardTrackerOptions {
  readonly loader: DataLoader;
  readonly corpus: Corpus;
  readonly nodeId: string;
  /** Shards where nobody else says how many. */
  readonly shardCount: number;
  /** Samples that this node trains between two deltas. */
  readonly samplesPerRound: number;
  emit(event: string, payload: Readonly<Record<string, unknown>>): void;
}

type Mark = Pick<ShardPlace, "at" | "walk">;

export class ShardTracker implements SharedData {
  readonly #options: ShardTrackerOptions;
  /** Up to here, in the present plan, shards are in `#carried` or in the header of a delta. */
  #told: Mark = { at: 0, walk: 0 };
  /** Where the present plan began. */
  #begun: Mark = { at: 0, walk: 0 };
  /** Finished under earlier plans, and in no delta yet. */
  #carried: readonly ShardRef[] = [];
  /** By sequence of the delta. */
  readonly #sent = new Map<number, readonly ShardRef[]>();
  #used = 0;

  /** @throws Error where `saved` is not what {@link state} gave. */
  constructor(options: ShardTrackerOptions, saved?: JsonValue) {
    this.#options = options;
    if (saved !== undefined && saved !== null) this.#restore(saved as JsonObject);
  }

  /** Takes up the place in the data, or begins this node's walk. */
  start(): void {
    const { nodeId, shardCount, loader, emit } = this.#options;
    const place = this.#place;
    if (place?.node !== nodeId) this.#goTo(startPlace(nodeId, shardCount));
    const { queue, spare, count } = this.#requiredPlace();
    const mode = queue.length + spare.length > 0 ? "leases" : "walk";
    emit("data_leases", {
      mode,
      reason: place?.node === nodeId ? "resumed" : "no_version",
      outer_step: null,
      shard_count: count,
      shards: queue.length,
      epoch: loader.position().epoch,
      corpus: this.#options.corpus.sha256,
    });
  }

  restarted(pending: readonly number[], progress: "open" | "lost" | number): void {
    // Decided since, or lost: the record of the next version says which, and leases them again if need be.
    for (const sequence of this.#sent.keys()) if (!pending.includes(sequence)) this.#sent.delete(sequence);
    if (progress === "open") return;
    const place = this.#requiredPlace();
    if (progress === "lost") {
      // A part of the shard that is under way is lost as well.
      this.#options.loader.seek({ epoch: 0, position: 0, shards: { ...place, offset: 0 } });
    } else if (pending.includes(progress)) {
      this.#sent.set(progress, [...this.#carried, ...this.#finishedSince(place)]);
    }
    this.#carried = [];
    this.#told = this.#requiredPlace();
  }

  headerFields(sequence: number, pending: readonly number[]): Readonly<Record<string, string>> {
    const { corpus } = this.#options;
    const place = this.#requiredPlace();
    const done = [...this.#carried, ...this.#finishedSince(place)];
    // Of deltas that were given up before they were sent.
    for (const [other, shards] of this.#sent) {
      if (pending.includes(other)) continue;
      done.unshift(...shards);
      this.#sent.delete(other);
    }
    this.#sent.set(sequence, done);
    this.#carried = [];
    this.#told = place;
    const wanted = this.#wanted(place);
    const report = { corpus, shardCount: place.count, wanted, done: groupShards(done) };
    return { [SHARDS_HEADER_KEY]: encodeShardReport(report) };
  }

  versionInstalled({ outerStep, fields }: SeenVersion, kept: readonly number[]): void {
    const { nodeId, corpus, loader, emit } = this.#options;
    const place = this.#requiredPlace();
    this.#carried = [...this.#carried, ...this.#finishedSince(place)];
    this.#told = place;
    for (const sequence of this.#sent.keys()) if (!kept.includes(sequence)) this.#sent.delete(sequence);
    const unconfirmed = groupShards([...this.#carried, ...[...this.#sent.values()].flat()]);
    const share = dataShare(fields, { nodeId, corpus, unconfirmed, shardCount: place.count });
    this.#used = Math.max(this.#used, this.#usedIn(place));
    this.#begun = place;
    this.#follow(place, share);
    emit("data_leases", {
      mode: share.mode,
      reason: share.reason ?? null,
      outer_step: outerStep,
      shard_count: this.#requiredPlace().count,
      shards: share.queue.length,
      epoch: loader.position().epoch,
      corpus: corpus.sha256,
    });
  }

  /** Plain JSON. */
  state(): JsonObject {
    return {
      told: [this.#told.at, this.#told.walk],
      begun: [this.#begun.at, this.#begun.walk],
      carried: this.#carried.map(([...ref]) => ref),
      sent: [...this.#sent].map(([sequence, shards]) => [sequence, shards.map(([...ref]) => ref)]),
      used: this.#used,
    };
  }

  #restore({ told, begun, carried, sent, used }: JsonObject): void {
    const mark = (pair: JsonValue | undefined): Mark => {
      const [at, walk] = pair as [number, number];
      return { at, walk };
    };
    this.#told = mark(told);
    this.#begun = mark(begun);
    this.#carried = carried as unknown as ShardRef[];
    for (const [sequence, shards] of sent as unknown as [number, ShardRef[]][])
      this.#sent.set(sequence, shards);
    this.#used = used as number;
  }

  /** Goes on with the share. The shard that is under way goes first if it is in it. */
  #follow(place: ShardPlace, share: DataShare): void {
    const { nodeId } = this.#options;
    const { walk } = place;
    const count = share.shardCount ?? place.count;
    if (share.mode === "walk" && place.queue.length + place.spare.length === 0) return;
    const isSameCut = count === place.count;
    if (!isSameCut) {
      this.#carried = [];
      this.#sent.clear();
      this.#used = 0;
    }
    const [epoch, shard] = isWalking(place)
      ? walkedShard(place, place.walk, walkOrder)
      : (place.queue[place.at] ?? []);
    const isPresent = (ref: ShardRef) =>
      isSameCut && place.offset > 0 && ref[0] === epoch && ref[1] === shard;
    const present = share.queue.filter(isPresent);
    this.#goTo({
      node: nodeId,
      count,
      queue: [...present, ...share.queue.filter((ref) => !isPresent(ref))],
      spare: share.held,
      at: 0,
      walk: isSameCut ? walk : 0,
      offset: present.length > 0 ? place.offset : 0,
    });
  }

  #goTo(place: ShardPlace): void {
    this.#options.loader.seek({ epoch: 0, position: place.offset, shards: place });
    // Where seeking has passed shards without samples, they count as finished.
    this.#told = { at: place.at, walk: place.walk };
    this.#begun = this.#told;
  }

  #finishedSince(place: ShardPlace): ShardRef[] {
    return finishedBetween(this.#told, place, walkOrder);
  }

  #wanted({ count }: ShardPlace): number {
    const { corpus, samplesPerRound } = this.#options;
    const perRound = (samplesPerRound * count) / corpus.samples;
    return Math.max(1, Math.min(count, Math.max(Math.ceil(ROUNDS_HELD * perRound), USE_FACTOR * this.#used)));
  }

  #usedIn(place: ShardPlace): number {
    return place.at - this.#begun.at + (isWalking(place) ? place.walk - this.#begun.walk : 0);
  }

  get #place(): ShardPlace | undefined {
    return this.#options.loader.position().shards;
  }

  #requiredPlace(): ShardPlace {
    return this.#place ?? startPlace(this.#options.nodeId, this.#options.shardCount);
  }
}
