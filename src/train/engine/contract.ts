// The training engine as the trainer sees it: it owns parameters, gradients and optimiser state, runs traced
// graphs over them and applies updates. Everything that crosses is plain data, so an engine can live in a
// worker thread.

import type { OptimizerHyper } from "../../optim/optimizer.js";
import type { TensorData } from "../../tensor/dtype.js";
import type { Graph } from "../../tensor/trace/graph.js";
import type { LayerNorms } from "./layer-norms.js";

/** Feed name of a parameter in every graph given to an engine. */
export const parameterFeed = (name: string): string => `param.${name}`;
/** Result name of a parameter's gradient in a training graph. */
export const gradientResult = (name: string): string => `grad.${name}`;
/** Feed and result name of a buffer that changes in training. */
export const bufferValue = (name: string): string => `buffer.${name}`;
/** Results that every training graph has: scalars. */
export const lossResult = "loss";
export const countResult = "count";

/** What a sum over `count` targets is divided by: a sum over none is 0 and stays 0. A count may be fractional. */
export const countDivisor = (count: number): number => (count <= 0 ? 1 : count);

export interface EngineParameter {
  readonly name: string;
  readonly shape: readonly number[];
  readonly trainable: boolean;
  /** Whether weight decay applies. */
  readonly decays: boolean;
  /** The rule that updates it, where it is not the engine's: a name in the table of optimisers. */
  readonly rule?: string;
}

export interface EngineOptions {
  readonly backend: "onnx" | "reference";
  readonly threads: number;
  readonly parameters: readonly EngineParameter[];
  /** Modules that bring the optimiser, for an engine in a thread of its own. */
  readonly plugins?: readonly string[];
  /** Absent: the engine only evaluates, and holds neither gradients nor optimiser state. */
  readonly optimizer?: { readonly name: string; readonly hyper: OptimizerHyper };
}

export interface Microbatch {
  readonly program: number;
  readonly feeds: Readonly<Record<string, TensorData>>;
  /** For graphs whose loss is a mean: how many targets it stands for. Graphs with a summed loss count themselves. */
  readonly weight: number;
}

export interface UpdateRequest {
  readonly microbatches: readonly Microbatch[];
  readonly lr: number;
  /** Number of this update for bias correction, from 1. */
  readonly count: number;
  /** Largest L2 norm of the averaged gradient; null: no clipping. */
  readonly gradClip: number | null;
  /** `targets`: all targets of the update weigh equally. `microbatches`: each microbatch's mean does. */
  readonly averaging: "targets" | "microbatches";
  /** Measure each parameter, its gradient and its change; costs a copy of all parameters. */
  readonly layerNorms?: boolean;
}

export interface UpdateResult {
  /** False when loss or gradient was not finite: nothing was changed. */
  readonly applied: boolean;
  /** Mean loss of the update. */
  readonly loss: number;
  /** Targets that counted. */
  readonly targets: number;
  /** L2 norm of the averaged gradient before clipping. */
  readonly gradNorm: number;
  /** Mean over microbatches of each further scalar result. */
  readonly metrics: Readonly<Record<string, number>>;
  /** What the update made of live buffers, by the names of their feeds. */
  readonly buffers: Readonly<Record<string, TensorData>>;
  readonly times: { readonly graphMs: number; readonly updateMs: number };
  /** What `layerNorms` asked for; absent when nothing was changed. */
  readonly layers?: LayerNorms;
}

/** A stretch of one parameter's values, or of one slot of the optimiser's state for it. */
export interface ArrayPart {
  readonly parameter: string;
  /** Null: the values themselves. */
  readonly slot: string | null;
  /** First value. */
  readonly begin: number;
}

/**
 * All state at one moment, copied. The tensors are views of `buffers`, which are shared memory: a buffer of this size
 * that changes hands makes both threads' collectors run, for longer than the copy takes.
 */
export interface EngineSnapshot {
  readonly parameters: Map<string, TensorData>;
  /** `<parameter>.<slot>` */
  readonly optimizer: Map<string, TensorData>;
  readonly buffers: readonly SharedArrayBuffer[];
}

export interface EngineDescription {
  readonly backend: string;
  readonly threads: number;
  readonly runtime: string;
  /** What the optimiser keeps for each trainable parameter. */
  readonly slots: ReadonlyMap<string, readonly string[]>;
  /** Sizes of the buffers of a snapshot. */
  readonly snapshotBytes: readonly number[];
}

export interface TrainEngine {
  /** Compiles `graph`; its parameter feeds are the engine's own. Returns the program's number. */
  addProgram(graph: Graph): Promise<number>;
  removeProgram(program: number): Promise<void>;
  update(request: UpdateRequest): Promise<UpdateResult>;
  /** Runs a program on the present parameters and returns its results. */
  evaluate(program: number, feeds: Readonly<Record<string, TensorData>>): Promise<Record<string, TensorData>>;
  /** Copies of all parameters by name. */
  readParameters(): Promise<Map<string, TensorData>>;
  /** `move`: the caller gives its arrays up, so that they cross threads without a copy. */
  writeParameters(values: ReadonlyMap<string, TensorData>, options?: { move?: boolean }): Promise<void>;
  /** Copies of the optimiser state: `<parameter>.<slot>`. */
  readOptimizer(): Promise<Map<string, TensorData>>;
  /** Replaces the optimiser state; a slot that is absent becomes zero. */
  writeOptimizer(values: ReadonlyMap<string, TensorData>): Promise<void>;
  /**
   * Copies parameters and optimiser state out, between two updates. `reuse` are the buffers of an earlier snapshot:
   * no longer read by the caller, written over, so that no memory has to be found (and cleared by the system) again.
   */
  snapshot(reuse?: readonly SharedArrayBuffer[]): Promise<EngineSnapshot>;
  /**
   * Overwrites a stretch of one array by the first `length` of `values`. The caller gives `values` up and gets the
   * memory back, for the next stretch: a state of any size goes in through one small buffer.
   */
  writePart(part: ArrayPart, values: Float32Array, length: number): Promise<Float32Array>;
  /** What the engine runs on, for manifests and start events, and what its state consists of. */
  describe(): Promise<EngineDescription>;
  close(): Promise<void>;
}
