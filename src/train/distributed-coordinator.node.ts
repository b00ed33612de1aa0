// A run as a node of a larger one: between the trainer's seam and the training node, with the node's files on disk. Node
// only.

import { join } from "node:path";

import type { JsonValue } from "../checkpoint/content.js";
import type { SpeedtronicConfig } from "../config/schema.js";
import { systemClock } from "../distributed/node/clock.node.js";
import { newSha256 } from "../distributed/node/outbox.node.js";
import { openStateFolder, type StateFolder } from "../distributed/node/state-folder.node.js";
import { WorkerNode, type WorkerNodeOptions } from "../distributed/node/worker-driver.js";
import type { Transport } from "../distributed/transports/contract.js";
import type { MetricLogger } from "../observe/metric-logger.js";
import type { CoordinatedRun, SyncCoordinator } from "./coordinator.js";

export interface WorkerCoordinatorOptions {
  readonly config: SpeedtronicConfig;
  /** The caller closes it. */
  readonly transport: Transport;
  readonly logger: Pick<MetricLogger, "emitCustom">;
  /** What of the model cannot be seen in its tensors. */
  readonly fingerprint: Readonly<Record<string, unknown>>;
  /** Waits, for tests. */
  readonly node?: Partial<Pick<WorkerNodeOptions, "clock" | "random" | "startWaitMs" | "firstInstallWaitMs">>;
}

export class WorkerCoordinator implements SyncCoordinator {
  readonly #options: WorkerCoordinatorOptions;
  readonly #folder: StateFolder;
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

  prepareState(state: JsonValue): void {
    this.#saved = state;
  }

  loadStateDict(state: JsonValue): void {
    this.#saved = state;
  }

  async start(run: CoordinatedRun): Promise<void> {
    this.#run = run;
    this.#tokens = run.tokens;
    const node = new WorkerNode(this.#nodeOptions());
    await node.start(run, this.#saved);
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
    this.#saved = node.summary();
  }

  async stateDict(): Promise<JsonValue> {
    return this.#node === undefined ? this.#saved : this.#node.checkpoint();
  }

  /** Gives the state folder free. After {@link stop}. */
  async close(): Promise<void> {
    await this.#folder.release();
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
      ...node,
    };
  }
}
