// What a file may ask of memory and time. Honest files of any size stay far below; each limit can be raised by
// a caller who trusts a file.

export interface TorchLimits {
  /** Bytes of the pickle, which describes the tensors; their data is not part of it. */
  readonly maxPickleBytes: number;
  /** Instructions of the pickle. */
  readonly maxInstructions: number;
  /** Containers, tensors, storages and strings that the pickle makes. */
  readonly maxObjects: number;
  /** Values of the tree when everything that is referred to more than once is counted as often. */
  readonly maxExpandedValues: number;
  /** Containers within containers. */
  readonly maxDepth: number;
  /** Bytes of one integer. PyTorch itself writes up to 10. */
  readonly maxIntegerBytes: number;
  /** Records of the zip container. */
  readonly maxRecords: number;
  /**
   * Bytes of all tensors when each is written out, beyond this factor of the file's size (and 256 MiB): tensors may
   * share, overlap and repeat their storage, so that a small file can describe any amount.
   */
  readonly maxExpansion: number;
}

export const DEFAULT_TORCH_LIMITS: TorchLimits = {
  maxPickleBytes: 2 ** 26,
  maxInstructions: 20_000_000,
  maxObjects: 2_000_000,
  maxExpandedValues: 10_000_000,
  maxDepth: 100,
  maxIntegerBytes: 256,
  maxRecords: 1_000_000,
  maxExpansion: 16,
};

/** Expansion that is never refused, however small the file. */
export const FREE_EXPANSION_BYTES = 2 ** 28;
