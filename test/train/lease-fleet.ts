// Training nodes and an aggregator that share a corpus over one repository, all of them the product's, in one process.
// The test says when a node makes a step and when a version is published, so that nothing depends on time. Read from
// the batches that reach the trainer: who trained which sample, and which samples are in a sum.

import { cpSync } from "node:fs";
import { buildRuntime, type ConfigInput, type Runtime, type TrainResult } from "speedtronic";
import type { Dataset, LoadedBatch, Sample, ShardPlace } from "speedtronic/data";
import { isWalking } from "../../src/data/shard-place.js";
import { ShardSampler } from "../../src/data/shard-sampler.js";
import {
  Aggregator,
  diskSurroundings,
  type Transport,
  withFaults,
} from "../../src/distributed/index.node.js";
import { WorkerNode } from "../../src/distributed/node/worker-driver.js";
import { parseLeases, walkOrder } from "../../src/distributed/protocol/index.js";
import { leaseFields } from "../../src/distributed/protocol/lease-fields.js";
import { type Recorded, recordEvents, temporaryFolder, tinyConfig, tinyModelFile } from "./helpers.js";

export const INNER_STEPS = 2;
export const CHECKPOINT_STEPS = 5;
/** Of a node, in its output folder. */
export const STATE_FOLDER = "node";
const BASE = 13;
/** Far beyond what anything here takes: only for a failure instead of a hang. */
const PATIENCE_MS = 60_000;

/** Samples that say which they are. */
export class NumberedDataset implements Dataset {
  constructor(readonly length: number) {
    if (length > BASE * BASE) throw new Error(`${length} samples have no numbers`);
  }

  get(index: number): Sample {
    const ids = Int32Array.from({ length: 9 }, (_, i) => (i * i + 7 * index) % BASE);
    ids[0] = index % BASE;
    ids[1] = Math.floor(index / BASE);
    return { inputIds: ids.subarray(0, 8), labels: ids.subarray(1) };
  }

  describe(): Record<string, unknown> {
    return { kind: "numbered", length: this.length };
  }
}

function numbersOf({ batch }: LoadedBatch): number[] {
  const { shape, data } = batch.input_ids!;
  const [count, width] = shape as [number, number];
  return Array.from({ length: count }, (_, i) => data[i * width]! + BASE * data[i * width + 1]!);
}

/** A sample that was trained once. */
export interface Trained {
  readonly node: string;
  /** Rounds that the fleet had played. */
  readonly round: number;
  /** Whether it was the node's to train, or one of the others that it has when it was given no more. */
  readonly from: "queue" | "spare" | "walk";
  readonly epoch: number;
  readonly shard: number;
  readonly index: number;
}

const nodes = new Map<string, WorkerNode>();
const { start } = WorkerNode.prototype;
WorkerNode.prototype.start = function (this: WorkerNode, ...args) {
  nodes.set(this.state.settings.nodeId, this);
  return start.apply(this, args);
};

/** Until `condition` holds: others in this process bring it about. */
async function until(condition: () => boolean, what: () => string): Promise<void> {
  const end = performance.now() + PATIENCE_MS;
  while (!condition()) {
    if (performance.now() > end) throw new Error(`${what()} does not come`);
    // A turn of the loop without keeping the machine busy.
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

export interface NodeSetup {
  readonly id: string;
  readonly batchSize: number;
  readonly outputDir?: string;
  readonly maxSteps?: number;
}

/** One life of a node. It makes a step only when it is told to. */
export class TrainingNode {
  readonly outputDir: string;
  readonly losses = new Map<number, number>();
  readonly events: Recorded;
  #runtime!: Runtime;
  #done!: Promise<TrainResult>;
  #isOver = false;
  #resumedAt = 0;
  #isCut = false;
  #pass: (() => void) | undefined;
  readonly #control = new AbortController();

  private constructor(
    private readonly fleet: LeaseFleet,
    readonly setup: NodeSetup,
    private readonly samplesOfStep: Map<number, Trained[]>,
  ) {
    this.outputDir = setup.outputDir ?? temporaryFolder();
    this.events = recordEvents((event, payload) => {
      if (event === "train_step") this.losses.set(payload.step as number, payload.loss as number);
      if (event === "delta_upload_queued") this.#noteDelta(payload);
    });
  }

  static async start(
    fleet: LeaseFleet,
    setup: NodeSetup,
    { resume = false, samplesOfStep = new Map<number, Trained[]>() } = {},
  ): Promise<TrainingNode> {
    const node = new TrainingNode(fleet, setup, samplesOfStep);
    await node.#open(resume);
    return node;
  }

  get id(): string {
    return this.setup.id;
  }

  get #worker() {
    return nodes.get(this.id)!.state;
  }

  /** Where it stands in the data. */
  get place(): ShardPlace {
    return this.#runtime.data.train.position().shards!;
  }

  /** Steps done. */
  get step(): number {
    return this.#runtime.trainer.step;
  }

  get mode(): string {
    return String(this.events.of("data_leases" as never).at(-1)!["mode" as never]);
  }

  /** Makes so many steps, and stands still before the next one. */
  async steps(count: number): Promise<void> {
    for (let i = 0; i < count; i++) {
      this.#go();
      await this.#standsStill();
    }
  }

  /** Everything taken is in the repository. */
  async sent(): Promise<void> {
    await until(
      () => this.#worker.pending.every(({ stage }) => stage === "sent"),
      () => `the last delta of ${this.id}`,
    );
  }

  /** There is a whole checkpoint of that step or a later one. */
  async saved(step: number): Promise<void> {
    const steps = () => this.events.of("checkpoint" as never) as readonly { readonly step: number }[];
    await until(
      () => steps().some((saved) => saved.step >= step) || this.#resumedAt >= step,
      () => `a checkpoint of ${this.id} after step ${step}`,
    );
  }

  /** The version is on this node's disk, and goes into the weights after the next step. */
  async fetched(outerStep: number): Promise<void> {
    const isThere = () => {
      const { installed, candidate } = this.#worker;
      return (
        installed === outerStep || (candidate?.stage === "ready" && candidate.version.outerStep === outerStep)
      );
    };
    await until(isThere, () => `version ${outerStep} at ${this.id}`);
  }

  /** Ends after one more step, in good order. */
  async leave(): Promise<void> {
    this.#control.abort("test");
    this.#go();
    await this.#done;
    this.#isOver = true;
    await this.#runtime.close();
  }

  /**
   * Ends as by a loss of power: one more step, and nothing of what was not sent reaches anybody. Gives a copy of the
   * node's files as they were before it.
   */
  async crash(): Promise<string> {
    const image = temporaryFolder();
    const isNoLock = (path: string) => !/[\\/]\.lock-[0-9]+$/.test(path);
    cpSync(this.outputDir, image, { recursive: true, filter: isNoLock });
    this.#isCut = true;
    await this.leave();
    return image;
  }

  /** The same node again, from files as {@link crash} gave, or from its own. */
  again(outputDir = this.outputDir): Promise<TrainingNode> {
    const { fleet, samplesOfStep } = this;
    return TrainingNode.start(fleet, { ...this.setup, outputDir }, { resume: true, samplesOfStep });
  }

  #go(): void {
    const pass = this.#pass!;
    this.#pass = undefined;
    pass();
  }

  async #standsStill(): Promise<void> {
    let failure: unknown;
    this.#done.catch((error: unknown) => {
      failure = error;
    });
    await until(
      () => this.#pass !== undefined || failure !== undefined,
      () => `the next step of ${this.id}`,
    );
    if (failure !== undefined) throw failure;
  }

  async #open(resume: boolean): Promise<void> {
    const { fleet, setup, outputDir } = this;
    const transport = withFaults(fleet.connect(), () => (this.#isCut ? { kind: "unavailable" } : undefined));
    this.#runtime = await buildRuntime(nodeConfig(outputDir, setup, fleet.options.shardCount), {
      resume,
      transport,
      dataset: new NumberedDataset(fleet.options.samples),
      signal: this.#control.signal,
      hooks: [this.events.hook],
    });
    fleet.closers.push(async () => {
      if (!this.#isOver) await this.leave();
      await transport.close();
    });
    this.#resumedAt = this.step;
    this.#watch();
    this.#done = this.#runtime.trainer.fit();
    await this.#standsStill();
  }

  /** Notes what reaches the trainer. */
  #watch(): void {
    const { fleet, setup, samplesOfStep } = this;
    const { train } = this.#runtime.data;
    const next = train.next.bind(train);
    const { samples: length, shardCount } = fleet.options;
    const sampler = new ShardSampler({ length, batchSize: 1, shuffle: true, shardCount, walk: walkOrder });
    train.next = async () => {
      await new Promise<void>((resolve) => {
        this.#pass = resolve;
      });
      let position = train.position();
      const batch = await next();
      const trained = numbersOf(batch).map((index): Trained => {
        const { epoch, shards } = position;
        const { queue, spare, at, walk, count } = shards!;
        const from = isWalking(shards!) ? "walk" : at < queue.length ? "queue" : "spare";
        const [, shard] =
          [...queue, ...spare][at] ??
          ([0, walkOrder(setup.id, Math.floor(walk / count), count)[walk % count]!] as const);
        position = sampler.draw(position).end;
        return { node: setup.id, round: fleet.round, from, epoch, shard, index };
      });
      fleet.trained.push(...trained);
      samplesOfStep.set(this.#runtime.trainer.step + 1, trained);
      return batch;
    };
  }

  #noteDelta(payload: Readonly<Record<string, unknown>>): void {
    const { path, step, steps } = payload as { path: string; step: number; steps: number };
    const samples = Array.from({ length: steps }, (_, i) => this.samplesOfStep.get(step - i) ?? []);
    this.fleet.samplesOfDelta.set(path, samples.flat());
  }
}

function nodeConfig(
  outputDir: string,
  { id, batchSize, maxSteps = 100_000 }: NodeSetup,
  shardCount: number,
): ConfigInput {
  return {
    ...tinyConfig(outputDir, {
      run: { max_steps: maxSteps },
      model: { dropout: 0.2 },
      data: {
        micro_batch_size: batchSize,
        target_batch_size: batchSize,
        shuffle: true,
        virtual_shards: shardCount,
      },
      scheduler: { name: "constant" },
      checkpoint: { every_steps: CHECKPOINT_STEPS },
    }),
    distributed: {
      enabled: true,
      role: "worker",
      repo_id: "lab/run",
      node_id: id,
      state_dir: STATE_FOLDER,
      inner_steps: INNER_STEPS,
      poll_interval: 0.002,
      retry_initial: 0.002,
      retry_max: 0.002,
      delta_upload_shutdown_timeout: 0.5,
    },
  };
}

export interface LeaseFleetOptions {
  readonly samples: number;
  readonly shardCount: number;
  readonly connect: () => Transport;
}

export class LeaseFleet {
  readonly nodes = new Map<string, TrainingNode>();
  readonly trained: Trained[] = [];
  readonly samplesOfDelta = new Map<string, readonly Trained[]>();
  /** The most shards that a node ever held. */
  readonly largestLease = new Map<string, number>();
  readonly closers: (() => Promise<unknown>)[] = [];
  round = 0;
  #aggregator!: Aggregator;

  private constructor(readonly options: LeaseFleetOptions) {}

  static async start(options: LeaseFleetOptions): Promise<LeaseFleet> {
    const fleet = new LeaseFleet(options);
    const weights = await tinyModelFile();
    fleet.#aggregator = await Aggregator.start({
      transport: fleet.connect(),
      surroundings: await diskSurroundings(temporaryFolder()),
      settings: {
        outerLr: 0.7,
        outerMomentum: 0.5,
        momentumWarmupRounds: 2,
        merge: "tokens",
        stalenessLimit: 1000,
        stalenessDiscount: 1,
        clipFactor: null,
        quorum: 1,
        graceMs: 0,
        keepVersions: 1000,
      },
      masterId: "master",
      pollIntervalMs: 1,
      recordFields: leaseFields({ shardCount: options.shardCount }),
      bootstrap: { writeState: async (sink) => sink.write(weights) },
    });
    return fleet;
  }

  connect(): Transport {
    const transport = this.options.connect();
    this.closers.push(() => transport.close());
    return transport;
  }

  get outerStep(): number {
    return this.#aggregator.outerStep;
  }

  get table() {
    return parseLeases(this.#aggregator.run.head.record.extra.leases ?? null);
  }

  async join(id: string, batchSize: number): Promise<TrainingNode> {
    const node = await TrainingNode.start(this, { id, batchSize });
    this.nodes.set(id, node);
    return node;
  }

  /** An inner loop of every node, a version of what they sent; all but `slow` have it on their disks afterwards. */
  async play({ slow = [] }: { readonly slow?: readonly string[] } = {}): Promise<void> {
    this.round += 1;
    const nodes = [...this.nodes.values()];
    await Promise.all(nodes.map((node) => node.steps(INNER_STEPS)));
    await Promise.all(nodes.map((node) => node.sent()));
    await this.publish();
    const quick = nodes.filter(({ id }) => !slow.includes(id));
    await Promise.all(quick.map((node) => node.fetched(this.outerStep)));
  }

  async publish(): Promise<void> {
    await this.#aggregator.poll();
    const held = new Map<string, number>();
    for (const { leases } of this.table.epochs) {
      for (const [id, shards] of leases) held.set(id, (held.get(id) ?? 0) + shards.length);
    }
    for (const [id, count] of held)
      this.largestLease.set(id, Math.max(this.largestLease.get(id) ?? 0, count));
  }

  async playUntil(epoch: number, slow: () => readonly string[] = () => []): Promise<void> {
    while (this.table.epochs[0]!.epoch < epoch) {
      if (this.round > 400) throw new Error(`epoch ${epoch} does not come`);
      await this.play({ slow: slow() });
    }
  }

  /** Until every node trains what is leased to it. The round from which on that is so. */
  async settle(): Promise<number> {
    const isSettled = () =>
      [...this.nodes.values()].every(({ mode, place }) => mode === "leases" && !isWalking(place));
    while (this.round === 0 || !isSettled()) {
      if (this.round > 50) throw new Error("some node gets no lease");
      await this.play();
    }
    return this.round + 1;
  }

  /** Samples, as `epoch:sample`, of finished epochs that no sum has. */
  leftOut(): string[] {
    const counted = new Set<string>();
    for (const { path, fate } of this.#aggregator.run.ledger.entries) {
      if (fate !== "applied" && fate !== "merged") continue;
      for (const { epoch, index } of this.samplesOfDelta.get(path)!) counted.add(`${epoch}:${index}`);
    }
    const { samples } = this.options;
    const open = this.table.epochs[0]!.epoch;
    const all = Array.from({ length: open * samples }, (_, i) => `${Math.floor(i / samples)}:${i % samples}`);
    return all.filter((key) => !counted.has(key));
  }

  /** What two nodes trained from that round on: samples as `epoch:sample`, and their shards as `epoch:shard`. */
  shared(fromRound: number) {
    const nodesOf = new Map<string, { readonly shard: string; readonly nodes: Set<string> }>();
    for (const { round, epoch, shard, index, node } of this.trained) {
      if (round < fromRound) continue;
      const key = `${epoch}:${index}`;
      const entry = nodesOf.get(key) ?? { shard: `${epoch}:${shard}`, nodes: new Set() };
      nodesOf.set(key, entry);
      entry.nodes.add(node);
    }
    const twice = [...nodesOf].filter(([, { nodes }]) => nodes.size > 1);
    return {
      samples: twice.map(([key]) => key),
      shards: [...new Set(twice.map(([, { shard }]) => shard))],
    };
  }

  async close(): Promise<void> {
    for (const closer of this.closers.splice(0).reverse()) await closer();
  }
}
