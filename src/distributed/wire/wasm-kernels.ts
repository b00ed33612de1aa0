// The arithmetic of the outer step in WebAssembly, over one memory of a fixed size. Arrays that lie in it (see `take`)
// are worked on where they are; others pass through a small area of it, part by part.

import { Bank } from "../../tensor/kernels/bank.js";
import { type OuterKernels, SQUARE_LANES } from "./outer-kernels.js";

/** Signatures of the exports of outer.as.ts. Addresses in bytes, counts in elements. */
interface OuterExports {
  outerSum(out: number, table: number, count: number, n: number, isContinued: number, divisor: number): void;
  outerAddScaled(y: number, x: number, n: number, isContinued: number, weight: number): void;
  outerAdvance(buffer: number, g: number, previous: number, n: number, mu: number): number;
  outerSubtract(out: number, state: number, eff: number, n: number, lr: number): number;
  outerSquares(x: number, n: number, lanes: number, phase: number): void;
}

/** Room for the pieces of some 50 files; memory that is never touched costs nothing. */
const CAPACITY_BYTES = 2 ** 27;
/** Elements of a part: those of all arrays of a call fit into the innermost caches. */
const PART_ELEMENTS = 2 ** 12;
/** Arrays that one call of a kernel adds up. */
const GROUP = 16;
/** Parts for arrays from elsewhere: those of a group and a result. */
const SLOTS = GROUP + 1;
const SLOT_BYTES = 4 * PART_ELEMENTS;

/** Kernels over a memory of their own. Make one per thread and keep it. */
export function createWasmKernels(module: WebAssembly.Module): OuterKernels {
  return new WasmKernels(module);
}

class WasmKernels implements OuterKernels {
  readonly #bank: Bank;
  readonly #exports: OuterExports;
  readonly #slots: number;
  /** Addresses of a group's arrays, for outerSum. */
  readonly #table: Uint32Array;
  readonly #lanes: Float64Array;
  readonly #memory: Uint8Array<ArrayBuffer>;

  constructor(module: WebAssembly.Module) {
    this.#bank = new Bank(module, CAPACITY_BYTES);
    this.#exports = this.#bank.kernels as unknown as OuterExports;
    this.#slots = this.#bank.allocate(SLOTS * SLOT_BYTES);
    const [table, lanes] = [this.#bank.allocate(4 * GROUP), this.#bank.allocate(8 * SQUARE_LANES)];
    // The bank never grows here, so that views stay valid.
    const buffer = this.#bank.float32(0, 0).buffer as ArrayBuffer;
    this.#memory = new Uint8Array(buffer);
    this.#table = new Uint32Array(buffer, table, GROUP);
    this.#lanes = new Float64Array(buffer, lanes, SQUARE_LANES);
  }

  take(sizeBytes: number): Uint8Array<ArrayBuffer> | undefined {
    const address = this.#bank.tryAllocate(sizeBytes);
    return address === undefined ? undefined : this.#memory.subarray(address, address + sizeBytes);
  }

  give(memory: Uint8Array<ArrayBuffer>): void {
    this.#bank.release(memory.byteOffset);
  }

  average(out: Float32Array, values: readonly Float32Array[]): void {
    const { outerSum } = this.#exports;
    this.#inParts([out, ...values], (begin, count) => {
      const target = this.#target(out, begin, 0);
      for (let first = 0; first < values.length; first += GROUP) {
        const group = values.slice(first, first + GROUP);
        for (const [i, x] of group.entries()) this.#table[i] = this.#source(x, begin, count, i + 1);
        const divisor = first + GROUP >= values.length ? values.length : 1;
        outerSum(target, this.#table.byteOffset, group.length, count, first > 0 ? 1 : 0, divisor);
      }
      this.#store(out, begin, count, target);
    });
  }

  addWeighted(out: Float32Array, values: readonly Float32Array[], weights: Float32Array): void {
    this.#inParts([out, ...values], (begin, count) => {
      const target = this.#target(out, begin, 0);
      for (const [d, x] of values.entries()) {
        const source = this.#source(x, begin, count, 1);
        this.#exports.outerAddScaled(target, source, count, d > 0 ? 1 : 0, weights[d]!);
      }
      this.#store(out, begin, count, target);
    });
  }

  advance(buffer: Float32Array, g: Float32Array, previous: Float32Array | undefined, mu: number): boolean {
    let isSound = true;
    this.#inParts([buffer, g, ...(previous === undefined ? [] : [previous])], (begin, count) => {
      const target = this.#target(buffer, begin, 0);
      const gradient = this.#source(g, begin, count, 1);
      // Address 0 stands for zeros.
      const old = previous === undefined ? 0 : this.#source(previous, begin, count, 2);
      if (this.#exports.outerAdvance(target, gradient, old, count, mu) === 0) isSound = false;
      this.#store(buffer, begin, count, target);
      this.#store(g, begin, count, gradient);
    });
    return isSound;
  }

  subtractScaled(out: Float32Array, state: Float32Array, eff: Float32Array, lr: number): boolean {
    let isSound = true;
    this.#inParts([out, state, eff], (begin, count) => {
      const target = this.#target(out, begin, 0);
      const [from, by] = [this.#source(state, begin, count, 1), this.#source(eff, begin, count, 2)];
      if (this.#exports.outerSubtract(target, from, by, count, lr) === 0) isSound = false;
      this.#store(out, begin, count, target);
    });
    return isSound;
  }

  addSquares(lanes: Float64Array, values: Float32Array, phase: number): void {
    this.#lanes.set(lanes);
    this.#inParts([values], (begin, count) => {
      const source = this.#source(values, begin, count, 0);
      this.#exports.outerSquares(source, count, this.#lanes.byteOffset, (phase + begin) % SQUARE_LANES);
    });
    lanes.set(this.#lanes);
  }

  /** One part when all arrays are here, else parts that fit the slots. */
  #inParts(arrays: readonly Float32Array[], work: (begin: number, count: number) => void): void {
    const { length } = arrays[0]!;
    const most = arrays.every((array) => this.#owns(array)) ? length : PART_ELEMENTS;
    for (let begin = 0; begin < length; begin += most) work(begin, Math.min(most, length - begin));
  }

  #owns(array: Float32Array): boolean {
    return array.buffer === this.#memory.buffer;
  }

  /** Address of a result: where it belongs, or a slot. */
  #target(array: Float32Array, begin: number, slot: number): number {
    return this.#owns(array) ? array.byteOffset + 4 * begin : this.#slots + slot * SLOT_BYTES;
  }

  /** Address of values: where they are, or a slot that they are copied to. */
  #source(array: Float32Array, begin: number, count: number, slot: number): number {
    const address = this.#target(array, begin, slot);
    if (!this.#owns(array)) this.#view(address, count).set(array.subarray(begin, begin + count));
    return address;
  }

  /** Copies a result from its slot to where it belongs. */
  #store(array: Float32Array, begin: number, count: number, address: number): void {
    if (!this.#owns(array)) array.set(this.#view(address, count), begin);
  }

  #view(address: number, count: number): Float32Array {
    return new Float32Array(this.#memory.buffer, address, count);
  }
}
