// What lies on the stack of the pickle machine: values, and inert stand-ins for the few functions and classes that
// a pickle may mention.

import type { TorchDtype } from "../dtypes.js";
import type { TorchErrorFields, TorchProblem } from "../errors.js";
import { quote } from "../errors.js";
import { NumpyArray, TorchDtypeValue, TorchStorage, TorchTensor, type TorchValue } from "../values.js";

/** What constructors need of the machine that calls them. */
export interface CallContext {
  /** Throws TorchFileError at the instruction in progress. */
  fail(problem: TorchProblem, message: string, details?: TorchErrorFields["details"]): never;
  isTuple(value: unknown): value is readonly Item[];
  tuple(items: readonly TorchValue[]): readonly TorchValue[];
  /** An empty OrderedDict. */
  ordered(): Map<TorchValue, TorchValue>;
  isOrdered(value: unknown): boolean;
  setItem(map: Map<TorchValue, TorchValue>, key: Item, value: Item): void;
  /** Refuses stand-ins. */
  plain(item: Item): TorchValue;
}

/** A function that may be called: builds plain data from its arguments. */
export class PickleFunction {
  constructor(
    readonly name: string,
    readonly call: (args: readonly Item[], context: CallContext) => Item,
  ) {}
}

/** A class that may be passed to a function, but neither called nor kept. */
export class PickleClass {
  constructor(
    readonly name: string,
    /** For classes of storages. */
    readonly storage?: { readonly dtype: TorchDtype | undefined },
  ) {}
}

/** An element type of numpy on its way to an array. */
export class NumpyDtype {
  readonly name: string;
  isBigEndian = false;

  constructor(readonly code: string) {
    this.name = `numpy.dtype(${code})`;
  }
}

export type Item = TorchValue | PickleFunction | PickleClass | NumpyDtype;

/** Whether it stands for something that is no data. */
export function isStandIn(item: unknown): item is PickleFunction | PickleClass | NumpyDtype {
  return item instanceof PickleFunction || item instanceof PickleClass || item instanceof NumpyDtype;
}

/** What a value is, for messages. */
export function describeItem(item: Item | undefined): string {
  if (item === undefined) return "nothing";
  if (item === null) return "None";
  if (typeof item === "string") return `the text ${quote(item)}`;
  if (typeof item !== "object") return `the value ${String(item)}`;
  if (isStandIn(item)) return item.name;
  if (item instanceof TorchTensor) return "a tensor";
  if (item instanceof TorchStorage) return "a storage";
  if (item instanceof TorchDtypeValue) return `torch.${item.dtype}`;
  if (item instanceof NumpyArray) return "a numpy array";
  if (item instanceof Map) return "a dict";
  if (item instanceof Set) return "a set";
  return item instanceof Uint8Array ? "bytes" : "a list or tuple";
}
