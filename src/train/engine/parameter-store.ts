// Where parameters, gradients and optimiser state live: contiguous runs in one or more banks. Within a bank
// the parameters that decay come first, so an update is at most two kernel calls. Every tensor starts at a
// multiple of 16 bytes and is padded with zeros, which no kernel changes.

import type { TensorData } from "../../tensor/dtype.js";
import { Bank, maxBankBytes } from "../../tensor/kernels/bank.js";
import { sizeOf } from "../../tensor/shape.js";
import { invariant, ModelError } from "../../util/errors.js";
import { type EngineParameter, type EngineSnapshot, gradientResult } from "./contract.js";

/** Share of a bank that state may fill; the rest is for scratch of compiled graphs. */
const stateShare = 0.8;
const paddedLength = (length: number) => Math.ceil(length / 16) * 16;

interface Placement {
  readonly parameter: EngineParameter;
  readonly bank: number;
  /** In values, from the start of each array of its bank. */
  readonly start: number;
  readonly length: number;
}

/** One bank's arrays: equally long, equally laid out. */
export interface BankArrays {
  readonly bank: Bank;
  readonly parameters: number;
  readonly gradients: number;
  /** Where microbatches after the first put their gradients until they are added; made when first needed. */
  accumulator: number | undefined;
  readonly slots: readonly number[];
  /** Values that weight decay applies to: the front part. */
  readonly decaying: number;
  readonly trainable: number;
  readonly length: number;
}

export class ParameterStore {
  readonly banks: readonly BankArrays[];
  readonly #placements = new Map<string, Placement>();
  readonly #views = new Map<string, TensorData>();

  constructor(
    kernels: WebAssembly.Module,
    parameters: readonly EngineParameter[],
    readonly slotNames: readonly string[],
    private readonly isTraining: boolean,
    bankBytes = maxBankBytes,
  ) {
    const arrays = isTraining ? 3 + slotNames.length : 1;
    const capacity = Math.floor((bankBytes * stateShare) / (4 * arrays));
    this.banks = this.#place(parameters, capacity).map((group, bank) => this.#makeBank(kernels, group, bank));
  }

  /** A view of the values of `name`; valid until its bank grows, so ask again for every use. */
  parameter(name: string): TensorData {
    return this.#view("parameter", name, (arrays) => arrays.parameters);
  }

  gradient(name: string): TensorData {
    return this.#view("gradient", name, (arrays) => arrays.gradients);
  }

  accumulator(name: string): TensorData {
    return this.#view("accumulator", name, (arrays) => {
      arrays.accumulator ??= this.#allocateCleared(arrays.bank, arrays.length);
      return arrays.accumulator;
    });
  }

  slot(slot: string, name: string): TensorData {
    const index = this.slotNames.indexOf(slot);
    return this.#view(slot, name, (arrays) => arrays.slots[index]!);
  }

  /**
   * Copies of all parameters and slots, one buffer per bank: its parameters, then each slot. A buffer of `reuse` that
   * has the right size is taken; its content is written over.
   */
  snapshot(reuse: readonly ArrayBuffer[]): EngineSnapshot {
    const free = [...reuse];
    const sizes = this.snapshotBytes();
    const layouts = this.banks.map(({ bank, parameters, slots, length, trainable }, index) => {
      const sizeBytes = sizes[index]!;
      const found = free.findIndex((buffer) => buffer.byteLength === sizeBytes);
      const buffer = found >= 0 ? free.splice(found, 1)[0]! : new ArrayBuffer(sizeBytes);
      const target = new Float32Array(buffer);
      target.set(bank.float32(parameters, length));
      for (const [order, slot] of slots.entries())
        target.set(bank.float32(slot, trainable), length + order * trainable);
      return { buffer, length, trainable };
    });
    const view = ({ parameter, bank, start, length }: Placement, offset: number): TensorData => {
      const data = new Float32Array(layouts[bank]!.buffer, 4 * (offset + start), length);
      return { dtype: "float32", shape: parameter.shape, data };
    };
    const placements = [...this.#placements];
    return {
      parameters: new Map(placements.map(([name, placement]) => [name, view(placement, 0)])),
      optimizer: new Map(
        placements
          .filter(([, { parameter }]) => parameter.trainable)
          .flatMap(([name, placement]) => {
            const { length, trainable } = layouts[placement.bank]!;
            return this.slotNames.map(
              (slot, index) => [`${name}.${slot}`, view(placement, length + index * trainable)] as const,
            );
          }),
      ),
      buffers: layouts.map(({ buffer }) => buffer),
    };
  }

  /** Sizes of the buffers that {@link snapshot} fills. */
  snapshotBytes(): number[] {
    return this.banks.map(({ length, slots, trainable }) => 4 * (length + slots.length * trainable));
  }

  has(name: string): boolean {
    return this.#placements.has(name);
  }

  /** Whether there is optimiser state for `name`. */
  trains(name: string): boolean {
    return this.#placements.get(name)?.parameter.trainable === true;
  }

  /** The bank that holds the gradient named `result`; the first bank for other results. */
  bankOf(result: string): Bank {
    for (const [name, { bank }] of this.#placements)
      if (gradientResult(name) === result) return this.banks[bank]!.bank;
    return this.banks[0]!.bank;
  }

  names(): string[] {
    return [...this.#placements.keys()];
  }

  trainableNames(): string[] {
    return [...this.#placements.values()].filter((p) => p.parameter.trainable).map((p) => p.parameter.name);
  }

  #view(kind: string, name: string, offsetOf: (arrays: BankArrays) => number): TensorData {
    const placement = this.#placements.get(name);
    invariant(placement, `no parameter ${name}`);
    const arrays = this.banks[placement.bank]!;
    const start = offsetOf(arrays) + 4 * placement.start;
    const key = `${kind} ${name}`;
    const known = this.#views.get(key);
    if (known && arrays.bank.owns(known.data)) return known;
    const data = arrays.bank.float32(start, placement.length);
    const view: TensorData = { dtype: "float32", shape: placement.parameter.shape, data };
    this.#views.set(key, view);
    return view;
  }

  /** Fills banks one after another, in parameter order. */
  #place(parameters: readonly EngineParameter[], capacity: number): EngineParameter[][] {
    const groups: EngineParameter[][] = [[]];
    let used = 0;
    for (const parameter of parameters) {
      const length = paddedLength(sizeOf(parameter.shape));
      if (length > capacity)
        throw new ModelError(
          `parameter ${parameter.name} has ${sizeOf(parameter.shape)} values; one tensor may have at most ${capacity}`,
          { code: "engine.parameter_too_large", details: { name: parameter.name } },
        );
      if (used + length > capacity) {
        groups.push([]);
        used = 0;
      }
      groups.at(-1)!.push(parameter);
      used += length;
    }
    return groups;
  }

  #makeBank(kernels: WebAssembly.Module, group: readonly EngineParameter[], bankIndex: number): BankArrays {
    const rank = (p: EngineParameter) => (p.trainable ? (p.decays ? 0 : 1) : 2);
    const ordered = [...group].sort((a, b) => rank(a) - rank(b));
    let start = 0;
    const ends = [0, 0, 0];
    for (const parameter of ordered) {
      const length = sizeOf(parameter.shape);
      this.#placements.set(parameter.name, { parameter, bank: bankIndex, start, length });
      start += paddedLength(length);
      for (let r = rank(parameter); r < 3; r++) ends[r] = start;
    }
    const [decaying, trainable] = ends as [number, number, number];
    const arrays = this.isTraining ? 2 + this.slotNames.length : 1;
    const bank = new Bank(kernels, 4 * arrays * start);
    const take = () => this.#allocateCleared(bank, start);
    return {
      bank,
      parameters: take(),
      gradients: this.isTraining ? take() : 0,
      accumulator: undefined,
      slots: this.isTraining ? this.slotNames.map(take) : [],
      decaying,
      trainable,
      length: start,
    };
  }

  #allocateCleared(bank: Bank, length: number): number {
    const offset = bank.allocate(4 * length);
    bank.kernels.clear(offset, length);
    return offset;
  }
}
