// Between the trainer and the checkpoint store: takes snapshots, keeps one save in flight beside training,
// and puts a loaded checkpoint back.

import {
  compareFingerprints,
  describeDifference,
  environmentNotes,
  requireSameModel,
} from "../checkpoint/compare.js";
import type { CheckpointContent, Environment, Fingerprint } from "../checkpoint/content.js";
import type { LoadedCheckpoint } from "../checkpoint/load.js";
import type { CheckpointStore } from "../checkpoint/store.js";
import type { TrainableModel } from "../nn/contract.js";
import type { MetricLogger } from "../observe/metric-logger.js";
import { sizeOf } from "../tensor/shape.js";
import type { TrainEngine } from "./engine/contract.js";

export interface CheckpointerOptions {
  readonly store: CheckpointStore;
  readonly everySteps: number;
  /** Plain configuration without secrets. */
  readonly config: Readonly<Record<string, unknown>>;
  readonly fingerprint: Fingerprint;
  readonly environment: Environment;
}

/** Copies the engine's parameters into the model, whose state dict then shows them. */
export async function refreshModel(model: TrainableModel, engine: TrainEngine): Promise<void> {
  const values = await engine.readParameters();
  for (const [name, parameter] of model.namedParameters())
    parameter.data = values.get(name)!.data as Float32Array;
}

/** Hands the model's parameters over to the engine; the model holds none until {@link refreshModel}. */
export async function moveToEngine(model: TrainableModel, engine: TrainEngine): Promise<void> {
  const values = new Map(
    [...model.namedParameters()].map(([name, parameter]) => [name, parameter.takeData()]),
  );
  await engine.writeParameters(values, { move: true });
}

export class Checkpointer {
  #lastSaved: number | undefined;
  #inFlight: Promise<void> = Promise.resolve();
  #lastPath: string | null = null;

  constructor(
    private readonly options: CheckpointerOptions,
    private readonly model: TrainableModel,
    private readonly engine: TrainEngine,
    private readonly logger: MetricLogger,
  ) {}

  isDue(step: number): boolean {
    return step % this.options.everySteps === 0 && step !== this.#lastSaved;
  }

  hasSaved(step: number): boolean {
    return step === this.#lastSaved;
  }

  /**
   * Snapshots the state and saves it while training goes on; waits only for a save before it. A failed
   * periodic save is an event, not the end of the run.
   */
  async savePeriodic(trainer: CheckpointContent["trainer"]): Promise<void> {
    const content = await this.#snapshot(trainer);
    await this.#inFlight;
    this.#inFlight = this.#save(content, "periodic").catch((error: unknown) => {
      this.#lastSaved = undefined;
      this.logger.emit("checkpoint_failed", {
        step: trainer.step,
        error: error instanceof Error ? error.message : String(error),
        reason: "periodic",
        kept: this.#lastPath,
      });
    });
    this.#lastSaved = trainer.step;
  }

  /** Saves now and waits. Throws CheckpointError when it fails; earlier checkpoints are then untouched. */
  async saveFinal(trainer: CheckpointContent["trainer"], reason: string): Promise<void> {
    await this.#inFlight;
    if (this.hasSaved(trainer.step)) return;
    try {
      await this.#save(await this.#snapshot(trainer), reason);
      this.#lastSaved = trainer.step;
    } catch (error) {
      this.logger.emit("checkpoint_failed", {
        step: trainer.step,
        error: error instanceof Error ? error.message : String(error),
        reason,
        kept: this.#lastPath,
      });
      throw error;
    }
  }

  /** Waits for a save in flight. */
  async settle(): Promise<void> {
    await this.#inFlight;
  }

  /**
   * Checks that `loaded` fits this run, then puts its tensors into the engine. Throws CheckpointError or
   * ModelError before anything is changed; returns what is worth telling.
   */
  async restore(loaded: LoadedCheckpoint): Promise<string[]> {
    const { content, info } = loaded;
    const { fingerprint, environment } = this.options;
    requireSameModel(content.fingerprint.model, fingerprint.model, info.path);
    const differences = compareFingerprints(content.fingerprint, fingerprint);
    for (const parameter of this.model.namedParameters().values())
      if (!parameter.hasData) parameter.data = new Float32Array(sizeOf(parameter.shape));
    this.model.loadStateDict(content.model);
    await this.engine.writeOptimizer(content.optimizer);
    await moveToEngine(this.model, this.engine);
    this.options.store.continueFrom(info);
    this.#lastSaved = content.trainer.step;
    this.#lastPath = info.path;
    const changed = [
      ...differences.data.map((d) => `data.${describeDifference(d)}`),
      ...differences.optimizer.map((d) => `optimizer.${describeDifference(d)}`),
    ];
    return [
      ...changed.map((text) => `${text}; the configuration's value is used from here on`),
      ...environmentNotes(content.environment, environment),
    ];
  }

  async #snapshot(trainer: CheckpointContent["trainer"]): Promise<CheckpointContent> {
    await refreshModel(this.model, this.engine);
    const { config, fingerprint, environment } = this.options;
    const optimizer = await this.engine.readOptimizer();
    return { model: this.model.stateDict(), optimizer, trainer, config, fingerprint, environment };
  }

  async #save(content: CheckpointContent, reason: string): Promise<void> {
    const saved = await this.options.store.save(content);
    this.#lastPath = saved.path;
    this.logger.emit("checkpoint", {
      step: saved.step,
      path: saved.path,
      reason,
      size_bytes: saved.sizeBytes,
      save_s: saved.elapsedMs / 1000,
    });
  }
}
