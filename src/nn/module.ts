// A Module owns parameters, buffers and other modules, and gives each a dotted name made of field names, as
// PyTorch does: own parameters, then own buffers, then children, each in the order of the fields. It does not
// say how to compute; models and layers add a `forward` of their own.

import { isFloating } from "../tensor/dtype.js";
import {
  constant,
  liveValue,
  Parameter,
  replaceLive,
  type Tensor,
  type TensorData,
} from "../tensor/index.js";
import { sizeOf } from "../tensor/shape.js";
import { ModelError } from "../util/errors.js";
import { type ExtraState, loadExtra } from "./extra-state.js";
import { type LoadOptions, type LoadReport, loadInto, type StateEntry } from "./state-dict.js";

/**
 * `average` (default for floating-point values): the mean of what the nodes have; `max`: the largest of it; `copy`: the
 * shared state's value for all; `local` (default for others): each node keeps its own after its first version.
 */
export type BufferMerge = "average" | "copy" | "max" | "local";

/**
 * Values that belong to a module but are not trained. In a graph they are constants of the trace, unless they are live:
 * then training reads their present values at every step, and {@link update} changes them.
 */
export class Buffer {
  value: TensorData;
  /** Whether the state dict holds it. Tables that can be computed again need not be saved. */
  readonly persistent: boolean;
  /** What becomes of it where several nodes train one model. */
  readonly merge: BufferMerge;
  /** Whether it changes while the model trains, as running statistics do. */
  readonly live: boolean;

  /** @throws ModelError where `merge` needs floating-point values and there are none. */
  constructor(
    value: TensorData,
    options: { persistent?: boolean; merge?: BufferMerge; live?: boolean } = {},
  ) {
    const isReal = isFloating(value.dtype);
    const { persistent = true, merge = isReal ? "average" : "local" } = options;
    if (!isReal && (merge === "average" || merge === "max"))
      throw new ModelError(
        `a buffer of ${value.dtype} cannot be merged as "${merge}": updates of other nodes hold floating-point values only; use "local" or "copy"`,
        { code: "model.buffer_merge", details: { dtype: value.dtype, merge } },
      );
    this.value = value;
    this.persistent = persistent;
    this.merge = merge;
    this.live = options.live ?? false;
  }

  /** The present value in the graph that is being recorded. */
  toTensor(): Tensor {
    return (this.live ? liveValue(this, this.value) : undefined) ?? constant(this.value);
  }

  /**
   * Lets the graph that is being recorded replace the value, of the same shape and dtype. Counts for nothing outside
   * training, and where an update is not applied.
   * @throws ModelError for a buffer that is not live
   */
  update(next: Tensor): void {
    if (!this.live)
      throw new ModelError("only a live buffer changes: make it with { live: true }", {
        code: "model.buffer_not_live",
      });
    replaceLive(this, next, this.value);
  }
}

interface Members {
  readonly parameters: [string, Parameter][];
  readonly buffers: [string, Buffer][];
  readonly modules: [string, Module][];
}

export abstract class Module {
  /**
   * What this module is made of: its enumerable fields. Containers override it to name their items. Fields
   * that are neither a Parameter, a Buffer, a Module nor an array of these are ignored.
   */
  protected fields(): Iterable<readonly [string, unknown]> {
    return Object.entries(this);
  }

  /** Direct children by field name (`field.index` for an array of modules). */
  children(): Map<string, Module> {
    return new Map(membersOf(this.fields()).modules);
  }

  /** This module under the name "", and every module below it; a shared one once, under its first name. */
  namedModules(): Map<string, Module> {
    const found = new Map<Module, string>();
    const visit = (module: Module, name: string) => {
      if (found.has(module)) return;
      found.set(module, name);
      for (const [key, child] of membersOf(module.fields()).modules) visit(child, join(name, key));
    };
    visit(this, "");
    return new Map([...found].map(([module, name]) => [name, module]));
  }

  /** Every parameter; a shared one once, under its first name. The order is that of optimiser states. */
  namedParameters(): Map<string, Parameter> {
    return this.#named((members) => members.parameters);
  }

  /** Every buffer, persistent or not; a shared one once, under its first name. */
  namedBuffers(): Map<string, Buffer> {
    return this.#named((members) => members.buffers);
  }

  /** Number of values in all parameters, each shared one counted once. */
  parameterCount(): number {
    let count = 0;
    for (const parameter of this.namedParameters().values()) count += sizeOf(parameter.shape);
    return count;
  }

  /**
   * Parameters and persistent buffers under all their names: tied tensors appear once per name. The values are
   * views, not copies; they change when the module does.
   */
  stateDict(): Map<string, TensorData> {
    const state = new Map<string, TensorData>();
    for (const { name, owner } of this.#stateEntries())
      state.set(name, owner instanceof Buffer ? owner.value : owner.toData());
    return state;
  }

  /**
   * Copies values from `state` into this module's own arrays and tells what happened. Everything is checked
   * first: an error leaves the module as it was. Any floating-point dtype is taken for a parameter. One name
   * is enough for a tied tensor; values under several of its names must be equal.
   * @throws ModelError when tied values differ; and, unless `strict` is false, when a name is missing, unknown
   * or has another shape or dtype.
   */
  loadStateDict(state: ReadonlyMap<string, TensorData>, options: LoadOptions = {}): LoadReport {
    return loadInto([...this.#stateEntries()], state, options);
  }

  /** The names of {@link stateDict} in its order, each with the object that holds its values; asks for no values. */
  stateEntries(): StateEntry[] {
    return [...this.#stateEntries()];
  }

  /**
   * State of this module alone that is neither parameter nor buffer, as plain JSON data; it goes into checkpoints.
   * Undefined (the default) if there is none. Override it together with {@link setExtraState}.
   */
  getExtraState(): ExtraState | undefined {
    return undefined;
  }

  /** Takes back what {@link getExtraState} gave. Should throw, and change nothing, if it cannot use it. */
  setExtraState(_state: ExtraState): void {
    throw new ModelError(`${this.constructor.name} has no setExtraState to take saved state`, {
      code: "model.extra_state",
      details: { module: this.constructor.name },
    });
  }

  /** Extra states of this module (under "") and all below it, by module name; those without one are left out. */
  extraState(): Record<string, ExtraState> {
    const states = [...this.namedModules()].map(([name, module]) => [name, module.getExtraState()] as const);
    return Object.fromEntries(
      states.filter((entry): entry is [string, ExtraState] => entry[1] !== undefined),
    );
  }

  /**
   * Takes back what {@link extraState} gave. An error leaves every module as it was.
   * @throws ModelError when modules with state and saved states are not the same ones, or a module refuses its own.
   */
  loadExtraState(saved: Readonly<Record<string, ExtraState>>): void {
    loadExtra(this.namedModules(), saved);
  }

  #named<T>(pick: (members: Members) => [string, T][]): Map<string, T> {
    const found = new Map<T, string>();
    for (const [prefix, module] of this.namedModules())
      for (const [key, item] of pick(membersOf(module.fields())))
        if (!found.has(item)) found.set(item, join(prefix, key));
    return new Map([...found].map(([item, name]) => [name, item]));
  }

  /** All names of all saved tensors, in state-dict order: shared ones repeatedly. */
  *#stateEntries(prefix = "", path: readonly Module[] = []): Generator<StateEntry> {
    if (path.includes(this))
      throw new ModelError(`module "${prefix}" contains itself: a state dict would be endless`, {
        code: "model.module_cycle",
        details: { name: prefix },
      });
    const { parameters, buffers, modules } = membersOf(this.fields());
    for (const [key, owner] of parameters) yield { name: join(prefix, key), owner };
    for (const [key, owner] of buffers) if (owner.persistent) yield { name: join(prefix, key), owner };
    for (const [key, child] of modules) yield* child.#stateEntries(join(prefix, key), [...path, this]);
  }
}

function join(prefix: string, key: string): string {
  return prefix === "" ? key : `${prefix}.${key}`;
}

function membersOf(fields: Iterable<readonly [string, unknown]>): Members {
  const members: Members = { parameters: [], buffers: [], modules: [] };
  const sort = (key: string, value: unknown) => {
    if (value instanceof Parameter) members.parameters.push([key, value]);
    else if (value instanceof Buffer) members.buffers.push([key, value]);
    else if (value instanceof Module) members.modules.push([key, value]);
    else return false;
    return true;
  };
  for (const [key, value] of fields) {
    if (sort(key, value) || !Array.isArray(value)) continue;
    for (const [index, item] of value.entries()) sort(`${key}.${index}`, item);
  }
  return members;
}
