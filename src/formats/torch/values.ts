// What a PyTorch file can hold, as plain data. Nothing here reads or computes.

import type { TorchDtype } from "./dtypes.js";

/** A run of bytes that tensors look into. */
export class TorchStorage {
  constructor(
    /** Its name in the file. */
    readonly key: string,
    /** Undefined for a storage of plain bytes, whose tensors name their own type. */
    readonly dtype: TorchDtype | undefined,
    readonly sizeBytes: number,
    /** Device on which it was when it was saved, such as `cpu` or `cuda:0`. */
    readonly location: string,
  ) {}
}

/** A tensor: a view of a storage. Strides and offset count elements. */
export class TorchTensor {
  constructor(
    readonly storage: TorchStorage,
    readonly dtype: TorchDtype,
    readonly shape: readonly number[],
    readonly strides: readonly number[],
    readonly storageOffset: number,
    readonly requiresGrad: boolean,
  ) {}

  get elementCount(): number {
    return this.shape.reduce((product, extent) => product * extent, 1);
  }
}

/** A numpy array of plain numbers (random generators keep their state in one). Rows follow one another. */
export class NumpyArray {
  constructor(
    /** numpy's short name without byte order, such as `u4` or `f8`. */
    readonly dtype: string,
    readonly shape: readonly number[],
    /** Little-endian. */
    readonly bytes: Uint8Array,
  ) {}
}

/** An element type as a value, such as `torch.float32`. */
export class TorchDtypeValue {
  constructor(readonly dtype: TorchDtype) {}
}

/** Python's lists and tuples are arrays, its dicts are maps in their order, its integers are exact. */
export type TorchValue =
  | null
  | boolean
  | number
  | bigint
  | string
  | Uint8Array
  | TorchTensor
  | TorchStorage
  | TorchDtypeValue
  | NumpyArray
  | readonly TorchValue[]
  | ReadonlyMap<TorchValue, TorchValue>
  | ReadonlySet<TorchValue>;
