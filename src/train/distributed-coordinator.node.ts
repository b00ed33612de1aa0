// A run as a node of a larger one: between the trainer's seam and the training node, with the node's files on disk. Node
// only.

import { join } from "node:path";

import type { JsonObject, JsonValue } from "../checkpoint/content.js";
import type { SpeedtronicConfig } from "../config/schema.js";
import type { DataLoader } from "../data/types.js";
import { systemClock } from "../distributed/node/clock.node.js";
import { newSha256 } from "../distributed/node/outbox.node.js";
import { hasUnsent, parseCheckpoint } from "../distributed/node/restart.js";
import { openStateFolder, type StateFolder } from "../distributed/node/state-folder.node.js";
import { WorkerNode, type WorkerNodeOptions } from "../distributed/node/worker-driver.js";
import { DEFAULT_SHARD_COUNT } from "../distributed/protocol/leases.js";
import type { Corpus } from "../distributed/protocol/shard-report.js";
import type { Transport } from "../distributed/transports/contract.js";
import type { BufferPolicies } from "../distributed/wire/buffer-merge.js";
import type { MetricLogger } from "../observe/metric-logger.js";
import type { CoordinatedRun, SyncCoordinator } from "./coordinator.js";
import { ShardTracker } from "./shard-tracker.js";

export interface WorkerCoordinatorOptions {
  readonly config: SpeedtronicConfig;
  /** The caller closes it. */
  readonly transport: Transport;
  readonly logger: Pick<MetricLogger, "emitCustom">;
  /** What of the model cannot be seen in its tensors. */
  readonly fingerprint: Readonly<Record<string, unknown>>;
  /** Of the model's buffers (see `bufferPolicies`). */
  readonly bufferPolicies?: BufferPolicies | undefined;
  /** A loader in shards; undefined: the node trains in an order that has nothing to do with the others'. */
  readonly data?: { readonly loader: DataLoader; readonly corpus: Corpus } | undefined;
  /** Waits, for tests. */
  readonly node?: Partial<Pick<WorkerNodeOptions, "clock" | "random" | "startWaitMs" | "firstInstallWaitMs">>;
}

export class WorkerCoordinator implements SyncCoordinator {
  readonly #options: WorkerCoordinatorOptions;
  readonly #folder: StateFolder;
  #tracker: ShardTracker | undefined;
  /** A new one for each fit. */
  #node: WorkerNode | undefined;
  #run: CoordinatedRun | undefined;
  #saved: JsonValue = null;
  #tokens = 0;

  private constructor(options: WorkerCoordinatorOptions, folder: StateFolder) {
    this.#options = options;
    this.#folder = folder;
  }

  /**
   * Takes the node's state folder.
   * @throws NodeError `node.locked` where another process has it, `node.state_folder`.
   */
  static async open(options: WorkerCoordinatorOptions): Promise<WorkerCoordinator> {
    const { config, transport } = options;
    const folder = await openStateFolder({
      root: join(config.run.output_dir, config.distributed.state_dir),
      nodeId: config.distributed.node_id,
      repoKey: transport.key,
    });
    return new WorkerCoordinator(options, folder);
  }

  get nodeId(): string {
    return this.#folder.nodeId;
  }

  /** Folder of this node's files for this repository. */
  get folder(): string {
    return this.#folder.path;
  }

  prepareState(state: JsonValue): void {
    this.#saved = state;
    this.#tracker = undefined;
  }

  loadStateDict(state: JsonValue): void {
    this.prepareState(state);
  }

  async hasUnsent(): Promise<boolean> {
    const record = await this.#folder.outbox.load();
    return hasUnsent(record, this.#saved === null ? undefined : parseCheckpoint(this.#saved));
  }

  /** Whether a delta of this node has no fate that the node knows of, sent or not. */
  async hasUndecided(): Promise<boolean> {
    const pending = (await this.#folder.outbox.load())?.worker.pending ?? [];
    return pending.length > 0 || (await this.hasUnsent());
  }

  async start(run: CoordinatedRun): Promise<void> {
    this.#run = run;
    this.#tokens = run.tokens;
    // Another fit of the same run goes on with the same one.
    this.#tracker ??= this.#openTracker();
    if (this.#tracker !== undefined) this.#tracker.start();
    else this.#options.logger.emitCustom("data_leases", noLeases);
    const node = new WorkerNode(this.#nodeOptions());
    await node.start(run, this.#saved, run.signal);
    this.#node = node;
  }

  async afterOptimizerStep(run: CoordinatedRun, step: number): Promise<boolean> {
    this.#run = run;
    const tokens = run.tokens - this.#tokens;
    this.#tokens = run.tokens;
    return (await this.#node?.afterStep(run, step, tokens)) ?? false;
  }

  async stop(): Promise<void> {
    const node = this.#node;
    if (node === undefined || this.#run === undefined) return;
    this.#node = undefined;
    await node.stop(this.#run, this.#options.config.distributed.delta_upload_shutdown_timeout * 1000);
    // Another fit of the same run goes on from here.
    this.#saved = this.#withShards(node.summary());
  }

  async stateDict(): Promise<JsonValue> {
    return this.#node === undefined ? this.#saved : this.#withShards(await this.#node.checkpoint());
  }

  /** Gives the state folder free. After {@link stop}. */
  async close(): Promise<void> {
    await this.#folder.release();
  }

  #withShards(document: JsonObject): JsonObject {
    return this.#tracker === undefined ? document : { ...document, shards: this.#tracker.state() };
  }

  #openTracker(): ShardTracker | undefined {
    const { config, data, logger } = this.#options;
    if (data === undefined) return undefined;
    const { virtual_shards: shardCount } = config.data;
    const saved = this.#saved === null ? undefined : (this.#saved as JsonObject).shards;
    const options = {
      ...data,
      nodeId: this.#folder.nodeId,
      shardCount: shardCount ?? DEFAULT_SHARD_COUNT,
      samplesPerRound: config.distributed.inner_steps * config.data.target_batch_size,
      emit: logger.emitCustom.bind(logger),
    };
    return new ShardTracker(options, saved);
  }

  #nodeOptions(): WorkerNodeOptions {
    const { config, transport, logger, fingerprint, node } = this.#options;
    const { distributed, checkpoint } = config;
    return {
      nodeId: this.#folder.nodeId,
      innerSteps: distributed.inner_steps,
      maxQueued: distributed.delta_upload_queue_size,
      transport,
      outbox: this.#folder.outbox,
      // Through JSON: fields without a value are left out.
      fingerprint: JSON.parse(JSON.stringify(fingerprint)) as WorkerNodeOptions["fingerprint"],
      clock: systemClock,
      random: Math.random,
      newHasher: newSha256,
      pollIntervalMs: distributed.poll_interval * 1000,
      backoff: { initialMs: distributed.retry_initial * 1000, maxMs: distributed.retry_max * 1000 },
      attempts: distributed.retry_attempts,
      // Each checkpoint names one.
      keepBaselines: (checkpoint.keep_last ?? Number.POSITIVE_INFINITY) + 2,
      emit: (event, payload) => logger.emitCustom(event, payload),
      data: this.#tracker,
      bufferPolicies: this.#options.bufferPolicies,
      ...node,
    };
  }
}

/** Of a node whose data is not in shards: a loader of the caller's, or `data.virtual_shards: null`. */
const noLeases = {
  mode: "own",
  reason: "no_shards",
  outer_step: null,
  shard_count: null,
  shards: 0,
  epoch: 0,
  corpus: null,
};
