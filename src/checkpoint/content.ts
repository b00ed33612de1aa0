// What a checkpoint holds, as plain data: the contract between the trainer, which fills and applies it, and
// the store, which keeps it on disk. Holds no behaviour and knows nothing of files.

import type { TensorData } from "../tensor/dtype.js";

/** Plain data. Numbers may be NaN, infinite or -0: the files keep them exactly. */
export type JsonValue = null | boolean | number | string | readonly JsonValue[] | JsonObject;
export interface JsonObject {
  readonly [key: string]: JsonValue | undefined;
}

/** Everything of a run that is neither a tensor nor configuration. */
export interface TrainerState {
  /** Optimizer steps done. Names and orders the checkpoint. */
  readonly step: number;
  readonly samples: number;
  readonly tokens: number;
  /** What has been consumed, never what has been prefetched. `position` counts samples within the epoch. */
  readonly data: { readonly epoch: number; readonly position: number };
  /** Seeds (and counters) from which every random draw follows. */
  readonly rng: JsonObject;
  readonly schedule: JsonObject;
  readonly bestValidation: { readonly step: number; readonly loss: number } | null;
  /** Validation at this very step; null or absent where none was due. What "best" is judged by. */
  readonly validation?: { readonly loss: number; readonly tokens: number } | null;
  /** Running counts such as skipped steps. */
  readonly counters: Readonly<Record<string, number>>;
  /** The sync coordinator's own state; null without one. Stands in a file of its own. */
  readonly coordinator: JsonValue;
  /** Whatever else the trainer wants back. */
  readonly extra?: JsonObject;
}

/** Every setting that changes what the numbers mean, by part. See `compareFingerprints`. */
export interface Fingerprint {
  readonly model: Readonly<Record<string, unknown>>;
  readonly data: Readonly<Record<string, unknown>>;
  readonly optimizer: Readonly<Record<string, unknown>>;
  /** Who this node is to others: role, name, repository. Absent in checkpoints of the first format. */
  readonly distributed?: Readonly<Record<string, unknown>>;
}

/** Where a checkpoint was made. Never refused, but different hardware may give different bits. */
export interface Environment {
  readonly threads: number;
  readonly cpu: string;
  readonly cpuFeatures?: string;
  readonly node: string;
  /** Name and version of this library. */
  readonly library: string;
  readonly platform: string;
  readonly onnxruntime?: string;
}

/**
 * A complete training state. Tensors that share storage (tied weights: same buffer, offset, dtype and shape)
 * are written once and come back as one object under both names.
 */
export interface CheckpointContent {
  /** Parameters and persistent buffers by state-dict name. */
  readonly model: ReadonlyMap<string, TensorData>;
  /** Optimizer tensors, for instance `<parameter>.exp_avg`. */
  readonly optimizer: ReadonlyMap<string, TensorData>;
  /** State of modules outside tensors (`Module.getExtraState`), by module name. Default: none. */
  readonly modules?: JsonObject;
  /** Tensors of the sync coordinator. Default: none. */
  readonly coordinator?: ReadonlyMap<string, TensorData>;
  readonly trainer: TrainerState;
  /** The run's configuration as plain data, without secrets. */
  readonly config: Readonly<Record<string, unknown>>;
  readonly fingerprint: Fingerprint;
  readonly environment: Environment;
}
