// What a Trainer is made from. All of it is plain parts that a caller builds; the composition root builds them from
// a configuration.

import type { JsonObject } from "../checkpoint/content.js";
import type { DataLoader, Dataset } from "../data/types.js";
import type { TrainableModel } from "../nn/contract.js";
import type { EventMap } from "../observe/events/catalogue.js";
import type { MetricLogger } from "../observe/metric-logger.js";
import type { RunSchedule, Schedule } from "../schedule/index.js";
import type { CheckpointerOptions } from "./checkpointer.js";
import type { SyncCoordinator } from "./coordinator.js";
import type { TrainEngine, UpdateRequest } from "./engine/contract.js";

export interface TrainerOptions {
  readonly model: TrainableModel;
  /** Holds the model's parameters; the trainer does not close it. */
  readonly engine: TrainEngine;
  readonly loader: DataLoader;
  readonly logger: MetricLogger;
  /** Absolute step at which the run ends. */
  readonly maxSteps: number;
  /** Microbatches per update. Default 1. */
  readonly accumulationSteps?: number;
  readonly lr: number;
  /** Factor of `lr` by updates done. A RunSchedule also goes on without a jump after a resume. Default: constant. */
  readonly schedule?: Schedule | RunSchedule;
  /** Largest gradient norm; null (default): no clipping. */
  readonly gradClip?: number | null;
  /** See `UpdateRequest.averaging`. Default `targets`. */
  readonly averaging?: UpdateRequest["averaging"];
  /** What a NaN or infinite loss or gradient does. Default: stop at the first. */
  readonly nonFinite?: { readonly policy: "stop" | "skip"; readonly maxConsecutiveSkips: number };
  /** Seed of dropout. Default 0. */
  readonly seed?: number;
  readonly validation?: {
    readonly dataset: Dataset;
    readonly batchSize: number;
    /** Null: only at the end. */
    readonly everySteps: number | null;
    readonly maxBatches: number | null;
    /** One token is one byte: report bits per byte. */
    readonly isByteLevel: boolean;
  };
  /** Writes sample text from the engine's present parameters. */
  readonly sampling?: {
    readonly everySteps: number | null;
    readonly atEnd: boolean;
    /** One sample each. */
    readonly prompts: readonly string[];
    sample(prompt: string, signal: AbortSignal | undefined): Promise<string>;
  };
  readonly checkpoints?: CheckpointerOptions;
  readonly coordinator?: SyncCoordinator;
  /** Clear the optimiser state after a synchronisation. Default false. */
  readonly resetInnerOptimizer?: boolean;
  /** Aborting it ends the run after the update in progress, saved. */
  readonly signal?: AbortSignal;
  /** Report the next update's learning rate as `lr`. Default false. */
  readonly reportsNextLr?: boolean;
  /** Updates between two `layer_norms` events. Default null: none. */
  readonly layerNormsEvery?: number | null;
  /** Measure the machine's matrix peak once, for `mfu`. Default false. */
  readonly measuresMfu?: boolean;
  /** Facts about the run's origin that every checkpoint should carry. */
  readonly extra?: JsonObject;
  /** Further fields of the `train_start` event. */
  readonly startInfo?: Partial<EventMap["train_start"]>;
}
