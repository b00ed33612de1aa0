// Between the trainer and the checkpoint store: takes snapshots, keeps one save in flight beside training,
// and puts a loaded checkpoint back.

import type { CheckpointContent, Environment, Fingerprint, JsonObject } from "../checkpoint/content.js";
import { type LoadedCheckpoint, type OpenedCheckpoint, openLoaded } from "../checkpoint/load.js";
import type { CheckpointStore } from "../checkpoint/store.js";
import { readAll } from "../checkpoint/stored-tensors.js";
import type { TrainableModel } from "../nn/contract.js";
import type { MetricLogger } from "../observe/metric-logger.js";
import { CheckpointError, SpeedtronicError } from "../util/errors.js";
import { type CoordinatorState, type CoordinatorTensors, noCoordinatorState } from "./coordinator.js";
import type { TrainEngine } from "./engine/contract.js";
import { planRestoration } from "./restoration.js";
import { wholeState } from "./whole-state.js";

export interface CheckpointerOptions {
  readonly store: CheckpointStore;
  readonly everySteps: number;
  /** Steps that are multiples of this are saved too, as milestones that the store keeps. Default null: none. */
  readonly keepEvery?: number | null;
  /** Fields in which a checkpoint may differ from this run and still be resumed. Default none. */
  readonly acceptDifferences?: readonly string[];
  /** Names of tensors that checkpoints do not hold, since they come from elsewhere and are never trained. */
  readonly leavesOut?: ReadonlySet<string>;
  /** Plain configuration without secrets. */
  readonly config: Readonly<Record<string, unknown>>;
  readonly fingerprint: Fingerprint;
  readonly environment: Environment;
}

/** What a checkpoint holds beside the tensors of model and optimiser, which the engine has. */
export interface SavedState {
  readonly trainer: CheckpointContent["trainer"];
  readonly coordinator: CoordinatorTensors;
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

/** Copies the engine's parameters into a model that holds none; an engine that has failed has none to give either. */
export async function giveBack(model: TrainableModel, engine: TrainEngine): Promise<void> {
  if ([...model.namedParameters().values()].every((parameter) => parameter.hasData)) return;
  await refreshModel(model, engine).catch(() => undefined);
}

/** Touched at once: a fraction of a millisecond, in which nothing else can happen on the thread. */
const touchedBytes = 1 << 20;

export class Checkpointer {
  #lastSaved: number | undefined;
  #inFlight: Promise<void> = Promise.resolve();
  #lastPath: string | null = null;
  /** Memory of the last snapshot, for the next one; in use while a save is in flight. */
  #buffers: readonly SharedArrayBuffer[] = [];
  #broken: Error | undefined;
  /** Counts up to call off a preparation in progress. */
  #preparation = 0;

  constructor(
    private readonly options: CheckpointerOptions,
    private readonly model: TrainableModel,
    private readonly engine: TrainEngine,
    private readonly logger: MetricLogger,
  ) {}

  isDue(step: number): boolean {
    const { everySteps, keepEvery } = this.options;
    const isDue = step % everySteps === 0 || (keepEvery != null && step % keepEvery === 0);
    return isDue && step !== this.#lastSaved;
  }

  hasSaved(step: number): boolean {
    return step === this.#lastSaved;
  }

  /** Throws CheckpointError if a restore broke off half-way: nothing may be trained or saved from there. */
  requireWhole(): void {
    if (this.#broken === undefined) return;
    throw new CheckpointError(
      `the state of this run is half restored, since reading the checkpoint failed: ${this.#broken.message}. Build it anew`,
      { code: "checkpoint.half_restored", cause: this.#broken },
    );
  }

  /**
   * Gets the memory of the first snapshot ready beside training, if a periodic save is due before `target`: the
   * system clears new pages when they are first touched, which takes several times as long as copying into them.
   */
  async prepare(step: number, target: number): Promise<void> {
    const { everySteps, keepEvery } = this.options;
    const next = (every: number) => (Math.floor(step / every) + 1) * every;
    if (this.#buffers.length > 0 || Math.min(next(everySteps), next(keepEvery ?? everySteps)) >= target)
      return;
    this.#preparation += 1;
    const own = this.#preparation;
    const { snapshotBytes } = await this.engine.describe();
    const buffers: SharedArrayBuffer[] = [];
    for (const sizeBytes of snapshotBytes) {
      const bytes = new Uint8Array(new SharedArrayBuffer(sizeBytes));
      for (let begin = 0; begin < sizeBytes; begin += touchedBytes) {
        if (this.#preparation !== own) return;
        bytes.fill(1, begin, begin + touchedBytes);
        await new Promise((resolve) => setImmediate(resolve));
      }
      buffers.push(bytes.buffer);
    }
    if (this.#preparation === own) this.#buffers = buffers;
  }

  /**
   * Snapshots the state and saves it while training goes on. Training waits for the copy, and for a save before it
   * that is not done yet, so that there is never more than one copy. A failed periodic save is an event, not the
   * end of the run.
   */
  async savePeriodic({ trainer, coordinator }: SavedState): Promise<void> {
    const startMs = performance.now();
    const failed = (error: unknown) => this.#reportFailure(error, trainer.step, "periodic");
    await this.#inFlight;
    this.#lastSaved = trainer.step;
    try {
      const content = await this.#snapshot({ trainer, coordinator });
      const stallMs = performance.now() - startMs;
      this.#inFlight = this.#save(content, "periodic", stallMs).catch((error: unknown) => {
        this.#lastSaved = undefined;
        failed(error);
      });
    } catch (error) {
      this.#lastSaved = undefined;
      // The engine's own end is the run's; it shows at the next update.
      failed(error);
    }
  }

  /** Saves now and waits. Throws CheckpointError when it fails; earlier checkpoints are then untouched. */
  async saveFinal(state: SavedState, reason: string): Promise<void> {
    const { step } = state.trainer;
    await this.#inFlight;
    if (this.hasSaved(step)) return;
    try {
      await this.#save(await this.#snapshot(state), reason);
      this.#lastSaved = step;
    } catch (error) {
      this.#reportFailure(error, step, reason);
      throw error;
    } finally {
      this.#buffers = [];
    }
  }

  /** Waits for a save in flight. */
  async settle(): Promise<void> {
    this.#preparation += 1;
    await this.#inFlight;
  }

  /**
   * Checks that `checkpoint` fits this run, then streams its tensors into the engine. Throws CheckpointError or
   * ModelError before anything is changed; returns what is worth telling, and the coordinator's state. Does not close it.
   */
  async restore(
    checkpoint: LoadedCheckpoint | OpenedCheckpoint,
  ): Promise<{ notes: string[]; coordinator: CoordinatorState }> {
    const opened = isOpened(checkpoint) ? checkpoint : openLoaded(checkpoint);
    const { content, info } = opened;
    const { fingerprint, environment, acceptDifferences = [], leavesOut = new Set<string>() } = this.options;
    const terms = { fingerprint, environment, acceptDifferences, leavesOut };
    const restoration = await planRestoration(opened, this.model, this.engine, terms);
    const tensors = content.coordinator ? await readAll(content.coordinator) : noCoordinatorState.tensors;
    restoration.applyModules();
    try {
      await restoration.applyTensors();
      this.#broken = undefined;
    } catch (error) {
      this.#broken = error instanceof Error ? error : new Error(String(error));
      throw asCheckpointError(error, info.path);
    }
    this.options.store.continueFrom(info);
    this.#lastSaved = content.trainer.step;
    this.#lastPath = info.path;
    return { notes: [...restoration.notes], coordinator: { state: content.trainer.coordinator, tensors } };
  }

  /** One copy, made by the engine between two updates and handed over without another. */
  async #snapshot({ trainer, coordinator }: SavedState): Promise<CheckpointContent> {
    this.requireWhole();
    this.#preparation += 1;
    const reuse = this.#buffers;
    this.#buffers = [];
    const { parameters, optimizer, buffers } = await this.engine.snapshot(reuse);
    this.#buffers = buffers;
    const { config, fingerprint, environment, leavesOut } = this.options;
    const modules = this.model.extraState() as JsonObject;
    return {
      model: wholeState(this.model, parameters, leavesOut),
      optimizer,
      modules,
      coordinator,
      trainer,
      config,
      fingerprint,
      environment,
    };
  }

  #reportFailure(error: unknown, step: number, reason: string): void {
    this.logger.emit("checkpoint_failed", {
      step,
      error: error instanceof Error ? error.message : String(error),
      reason,
      kept: this.#lastPath,
    });
  }

  async #save(content: CheckpointContent, reason: string, stallMs?: number): Promise<void> {
    // A run killed after this save resumes behind these steps: their lines must be on disk before it is.
    await this.logger.flush();
    const saved = await this.options.store.save(content);
    this.#lastPath = saved.path;
    this.logger.emit("checkpoint", {
      step: saved.step,
      path: saved.path,
      reason,
      size_bytes: saved.sizeBytes,
      save_s: saved.elapsedMs / 1000,
      ...(stallMs === undefined ? {} : { stall_s: stallMs / 1000 }),
    });
  }
}

function isOpened(checkpoint: LoadedCheckpoint | OpenedCheckpoint): checkpoint is OpenedCheckpoint {
  return "close" in checkpoint.content;
}

function asCheckpointError(error: unknown, path: string): unknown {
  if (error instanceof SpeedtronicError && error.code.startsWith("checkpoint.")) return error;
  return new CheckpointError(
    `${path}: the checkpoint could not be read to its end (${error instanceof Error ? error.message : String(error)}); ` +
      "the run is unusable, start the program again",
    { code: "checkpoint.unreadable", details: { path }, cause: error },
  );
}
