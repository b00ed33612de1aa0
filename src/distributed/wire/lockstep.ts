// The same tensor of several files at once, piece by piece: every piece covers the same elements in each of them,
// whatever their dtypes. A few pieces of memory per file, whatever the size of the tensors.

import { readPieces, type TensorReader, toFloat32 } from "../../formats/safetensors/index.js";
import { type OuterKernels, portableKernels } from "./outer-kernels.js";

/** Elements of a piece: 512 KiB of float32, so that the pieces of several files fit into a processor's cache. */
export const PIECE_ELEMENTS = 2 ** 17;
/** Pieces being read while one is worked on. */
const AHEAD = 1;
const WIDEST_BYTES = 8;
const WIDTHS = { F64: 8, F32: 4, F16: 2, BF16: 2 } as const;

/** Files to walk through, with the memory to do it in. Use it for one tensor after the other. */
export class Lockstep {
  readonly #readers: readonly TensorReader[];
  readonly #kernels: OuterKernels;
  /** For what the kernels have no memory for. */
  readonly #buffers: Uint8Array[][];

  constructor(readers: readonly TensorReader[], kernels: OuterKernels = portableKernels) {
    this.#readers = readers;
    this.#kernels = kernels;
    this.#buffers = readers.map(() => []);
  }

  /**
   * Float32 values of the tensor `name`, one array per file, in the order of the files. They are valid until the next
   * piece is asked for and may be written to only by copying first. A tensor without elements gives no piece.
   */
  async *pieces(name: string): AsyncGenerator<readonly Float32Array[], void, undefined> {
    const loans: Uint8Array<ArrayBuffer>[] = [];
    const walks = this.#readers.map((reader, i) => this.#walk(reader, name, i, loans));
    try {
      for (;;) {
        const steps = await Promise.all(walks.map((walk) => walk.next()));
        const values: Float32Array[] = [];
        for (const step of steps) {
          if (step.done === true) return;
          const { entry, bytes } = step.value;
          if (bytes.byteLength === 0) return;
          values.push(toFloat32({ dtype: entry.dtype, shape: [], bytes }));
        }
        yield values;
      }
    } finally {
      // Each waits for its reads in flight, since they write into the shared buffers.
      await Promise.allSettled(walks.map((walk) => walk.return()));
      for (const loan of loans) this.#kernels.give?.(loan);
    }
  }

  #walk(reader: TensorReader, name: string, index: number, loans: Uint8Array<ArrayBuffer>[]) {
    const { dtype, sizeBytes } = reader.entry(name);
    const width = WIDTHS[dtype as keyof typeof WIDTHS] ?? WIDEST_BYTES;
    const pieceBytes = PIECE_ELEMENTS * width;
    const options = { pieceBytes, ahead: AHEAD };
    if (sizeBytes <= 2 ** 15 || reader.readRangeInto === undefined)
      return readPieces(reader, [name], options);
    // Other dtypes are converted into memory elsewhere.
    const near = dtype === "F32" ? this.#borrow(Math.min(pieceBytes, sizeBytes), loans) : [];
    const buffers = this.#buffers[index]!;
    while (near.length === 0 && buffers.length <= AHEAD) {
      buffers.push(new Uint8Array(PIECE_ELEMENTS * WIDEST_BYTES));
    }
    return readPieces(reader, [name], { ...options, buffers: near.length === 0 ? buffers : near });
  }

  /** A file's buffers from the kernels: all of them, or none. */
  #borrow(sizeBytes: number, loans: Uint8Array<ArrayBuffer>[]): Uint8Array[] {
    const borrowed: Uint8Array<ArrayBuffer>[] = [];
    for (let i = 0; i <= AHEAD; i++) {
      const memory = this.#kernels.take?.(sizeBytes);
      if (memory !== undefined) borrowed.push(memory);
    }
    loans.push(...borrowed);
    return borrowed.length > AHEAD ? borrowed : [];
  }
}
