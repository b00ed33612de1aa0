// A run that trains as a node and publishes the run's versions too (role master). Both parts meet in the repository
// like any others; the master's failures end the master, not the training. Node only.

import { join } from "node:path";
import type { JsonValue } from "../checkpoint/content.js";
import { maxFileBytes } from "../distributed/node/max-file-bytes.js";
import { Aggregation, masterFailure } from "./aggregation.node.js";
import type { CoordinatedRun, SyncCoordinator } from "./coordinator.js";
import { WorkerCoordinator, type WorkerCoordinatorOptions } from "./distributed-coordinator.node.js";

/** Longest time that the last round may take. */
const DRAIN_MS = 60_000;

export class MasterCoordinator implements SyncCoordinator {
  readonly #options: WorkerCoordinatorOptions;
  readonly #worker: WorkerCoordinator;
  /** A new one for each fit. */
  #end = new AbortController();
  #aggregation: Aggregation | undefined;
  #running: Promise<void> | undefined;

  private constructor(options: WorkerCoordinatorOptions, worker: WorkerCoordinator) {
    this.#options = options;
    this.#worker = worker;
  }

  /** As {@link WorkerCoordinator.open}; the master's files stand beside the node's. */
  static async open(options: WorkerCoordinatorOptions): Promise<MasterCoordinator> {
    return new MasterCoordinator(options, await WorkerCoordinator.open(options));
  }

  prepareState(state: JsonValue): void {
    this.#worker.prepareState(state);
  }

  loadStateDict(state: JsonValue): void {
    this.#worker.loadStateDict(state);
  }

  /** A master killed before its last round has sent its own delta, which then waits for a round. */
  hasUnsent(): Promise<boolean> {
    return this.#worker.hasUndecided();
  }

  /** Starts the run with the trainer's weights where the repository has none. */
  async start(run: CoordinatedRun): Promise<void> {
    const { config, transport, logger, fingerprint } = this.#options;
    const { nodeId, folder } = this.#worker;
    const end = new AbortController();
    this.#end = end;
    const aggregation = await Aggregation.start({
      config,
      transport,
      logger,
      fingerprint,
      bufferPolicies: this.#options.bufferPolicies,
      folder: join(folder, "master"),
      masterId: nodeId,
      maxStateBytes: maxFileBytes(await run.readState()),
      initialState: () => run.readState(),
    });
    this.#aggregation = aggregation;
    this.#running = aggregation.run({ signal: end.signal }).catch((error: unknown) => this.#fail(error));
    await this.#worker.start(run);
  }

  afterOptimizerStep(run: CoordinatedRun, step: number): Promise<boolean> {
    return this.#worker.afterOptimizerStep(run, step);
  }

  /** The node's last delta, and a last round with whatever is there. */
  async stop(): Promise<void> {
    await this.#worker.stop();
    this.#end.abort();
    await this.#running;
    const aggregation = this.#aggregation;
    if (aggregation === undefined) return;
    try {
      await aggregation.drain(AbortSignal.timeout(DRAIN_MS));
    } catch (error) {
      this.#fail(error);
    }
    aggregation.stop();
  }

  stateDict(): Promise<JsonValue> {
    return this.#worker.stateDict();
  }

  /** Gives the state folder free. After {@link stop}. */
  async close(): Promise<void> {
    this.#end.abort();
    await this.#running;
    await this.#worker.close();
  }

  #fail(error: unknown): void {
    this.#aggregation = undefined;
    this.#options.logger.emitCustom("master_failed", masterFailure(error));
  }
}
