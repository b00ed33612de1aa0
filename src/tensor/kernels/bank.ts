// One linear memory with the compiled kernels over it and an allocator. An arena of more than 4 GiB is
// several banks; a kernel only ever touches one. Growing keeps contents and offsets but detaches the typed
// arrays handed out before, so callers keep offsets and ask for views when they use them.

import { invariant, ModelError } from "../../util/errors.js";

/** Signatures of the exports of kernels.as.ts. Offsets in bytes, counts in float32 elements, multiples of 4. */
export interface Kernels {
  sumOfSquares(x: number, n: number): number;
  addScaled(y: number, x: number, n: number, a: number): void;
  scale(x: number, n: number, a: number): void;
  clear(x: number, n: number): void;
  adamw(
    p: number,
    g: number,
    m: number,
    v: number,
    n: number,
    gradScale: number,
    keep: number,
    stepSize: number,
    beta1: number,
    complement1: number,
    beta2: number,
    complement2: number,
    inverseSqrtCorrection: number,
    eps: number,
  ): void;
  nesterovDirection(
    out: number,
    g: number,
    m: number,
    n: number,
    gradScale: number,
    momentum: number,
    complement: number,
  ): void;
  decayedStep(p: number, u: number, n: number, keep: number, stepSize: number): void;
  sgd(
    p: number,
    g: number,
    m: number,
    n: number,
    gradScale: number,
    keep: number,
    lr: number,
    momentum: number,
    gradWeight: number,
    momentumWeight: number,
  ): void;
  lion(
    p: number,
    g: number,
    m: number,
    n: number,
    gradScale: number,
    keep: number,
    lr: number,
    beta1: number,
    complement1: number,
    beta2: number,
    complement2: number,
  ): void;
  copy(to: number, from: number, n: number): void;
  countAgreeing(p: number, before: number, g: number, n: number, keep: number): number;
  keepAgreeing(p: number, before: number, g: number, n: number, keep: number, scale: number): void;
  scatterAdd(
    table: number,
    tableRows: number,
    ids: number,
    updates: number,
    rows: number,
    width: number,
  ): number;
  dropoutMask(out: number, n: number, key0: number, key1: number, threshold: number, value: number): void;
}

const pageBytes = 65_536;
const alignmentBytes = 64;
/** 64 KiB short of 4 GiB: the largest memory every engine accepts. */
export const maxBankBytes = 65_535 * pageBytes;

function roundUp(bytes: number): number {
  return Math.max(alignmentBytes, Math.ceil(bytes / alignmentBytes) * alignmentBytes);
}

function reserve(pages: number): WebAssembly.Memory {
  try {
    return new WebAssembly.Memory({ initial: pages, maximum: maxBankBytes / pageBytes });
  } catch (cause) {
    throw new ModelError(
      `cannot reserve ${Math.ceil((pages * pageBytes) / 2 ** 20)} MiB for parameters and training state: use a smaller model, or allow the process more memory`,
      { code: "engine.out_of_memory", cause },
    );
  }
}

export class Bank {
  readonly kernels: Kernels;
  readonly #memory: WebAssembly.Memory;
  /** Free ranges by ascending offset, never adjacent. */
  #free: { offset: number; bytes: number }[] = [];
  readonly #taken = new Map<number, number>();

  constructor(module: WebAssembly.Module, initialBytes: number) {
    const pages = Math.ceil(initialBytes / pageBytes) + 1;
    this.#memory = reserve(pages);
    const abort = () => invariant(false, "a kernel aborted");
    const instance = new WebAssembly.Instance(module, { env: { memory: this.#memory, abort } });
    this.kernels = instance.exports as unknown as Kernels;
    // The first page is left alone: AssemblyScript keeps its static data there.
    this.#free.push({ offset: pageBytes, bytes: (pages - 1) * pageBytes });
  }

  get sizeBytes(): number {
    return this.#memory.buffer.byteLength;
  }

  /** Reserves `bytes`, aligned to 64, contents undefined. Throws ModelError when the bank cannot grow further. */
  allocate(bytes: number): number {
    const offset = this.tryAllocate(bytes);
    if (offset !== undefined) return offset;
    this.#grow(roundUp(bytes));
    const grown = this.tryAllocate(bytes);
    invariant(grown !== undefined, "growing made room");
    return grown;
  }

  /** {@link allocate} in the memory as it is: typed arrays over it stay valid. Undefined when there is no room. */
  tryAllocate(bytes: number): number | undefined {
    const need = roundUp(bytes);
    const range = this.#free.find((r) => r.bytes >= need);
    if (range === undefined) return undefined;
    const { offset } = range;
    range.offset += need;
    range.bytes -= need;
    if (range.bytes === 0) this.#free.splice(this.#free.indexOf(range), 1);
    this.#taken.set(offset, need);
    return offset;
  }

  /** Gives back a range that {@link allocate} returned. */
  release(offset: number): void {
    const bytes = this.#taken.get(offset);
    invariant(bytes !== undefined, `offset ${offset} is not allocated`);
    this.#taken.delete(offset);
    this.#insertFree({ offset, bytes });
  }

  float32(offset: number, length: number): Float32Array {
    return new Float32Array(this.#memory.buffer, offset, length);
  }

  int32(offset: number, length: number): Int32Array {
    return new Int32Array(this.#memory.buffer, offset, length);
  }

  /** Whether `array` lies in this bank's memory as it is now. */
  owns(array: ArrayBufferView): boolean {
    return array.buffer === this.#memory.buffer;
  }

  #insertFree(range: { offset: number; bytes: number }): void {
    this.#free.push(range);
    this.#free.sort((a, b) => a.offset - b.offset);
    this.#free = this.#free.reduce<{ offset: number; bytes: number }[]>((merged, next) => {
      const last = merged.at(-1);
      if (last && last.offset + last.bytes === next.offset) last.bytes += next.bytes;
      else merged.push({ ...next });
      return merged;
    }, []);
  }

  #grow(need: number): void {
    const before = this.sizeBytes;
    const pages = Math.ceil(need / pageBytes);
    try {
      this.#memory.grow(pages);
    } catch (cause) {
      throw new ModelError(
        `cannot reserve ${Math.ceil(need / 2 ** 20)} MiB more for training state (${Math.ceil(before / 2 ** 20)} MiB in use): use a smaller model or batch`,
        { code: "engine.out_of_memory", cause },
      );
    }
    this.#insertFree({ offset: before, bytes: pages * pageBytes });
  }
}
