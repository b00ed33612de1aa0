// The seam for training together with other machines: the trainer calls a coordinator at fixed points. How
// it talks to anybody is its own affair.

import type { JsonValue } from "../checkpoint/content.js";
import type { TensorData } from "../tensor/dtype.js";

/** What a coordinator may do with the run it belongs to. Calls wait for the update in progress. */
export interface CoordinatedRun {
  readonly step: number;
  /** Aborted when the run is told to end: what waits for others waits no longer. */
  readonly signal?: AbortSignal | undefined;
  /** Copies of all parameters by name. */
  readParameters(): Promise<Map<string, TensorData>>;
  /** Replaces the named parameters. */
  writeParameters(values: ReadonlyMap<string, TensorData>): Promise<void>;
  /** Tokens of the applied updates, counted from the run's first start. */
  readonly tokens: number;
  /** Copies of the whole state dict: parameters and buffers, with every name of tied tensors, which share one object. */
  readState(): Promise<Map<string, TensorData>>;
  /** Replaces the whole state dict. Of a tied tensor the first name counts. */
  writeState(values: ReadonlyMap<string, TensorData>): Promise<void>;
}

/** By names of the coordinator's own. */
export type CoordinatorTensors = ReadonlyMap<string, TensorData>;

/** What a checkpoint holds of a coordinator. */
export interface CoordinatorState {
  readonly state: JsonValue;
  readonly tensors: CoordinatorTensors;
}

export const noCoordinatorState: CoordinatorState = { state: null, tensors: new Map() };

/** What a coordinator wants to find again. */
export async function stateOf(coordinator: SyncCoordinator): Promise<CoordinatorState> {
  const state = await coordinator.stateDict();
  return { state, tensors: (await coordinator.stateTensors?.()) ?? noCoordinatorState.tensors };
}

export interface SyncCoordinator {
  /** Before the first update, only if there is one to do or something to hand over. A failure ends the run. */
  start(run: CoordinatedRun): Promise<void> | void;
  /** After each applied update. True: the parameters were synchronised (see `distributed.reset_inner_optimizer`). */
  afterOptimizerStep(run: CoordinatedRun, step: number): Promise<boolean | undefined> | boolean | undefined;
  /** Once for every successful start, also after an error. */
  stop(): Promise<void> | void;
  /** Goes into every checkpoint; null: nothing, and nothing comes back. */
  stateDict(): Promise<JsonValue> | JsonValue;
  /**
   * Goes into every checkpoint beside `stateDict`, after which it is asked for. Copies: what is given is written while
   * training goes on. Default: none.
   */
  stateTensors?(): Promise<CoordinatorTensors> | CoordinatorTensors;
  /** Saved state after `start`, for coordinators without `prepareState`. */
  loadStateDict(state: JsonValue, tensors: CoordinatorTensors): Promise<void> | void;
  /**
   * Asked, after `prepareState`, where no update is left to do: whether what an earlier process left behind still has
   * to be handed over; then `start` and `stop` follow. Default: no.
   */
  hasUnsent?(): Promise<boolean> | boolean;
  /** Saved state before `start`. */
  prepareState?(state: JsonValue, tensors: CoordinatorTensors): Promise<void> | void;
}
