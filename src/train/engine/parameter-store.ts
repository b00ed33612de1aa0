// Where parameters, gradients and optimiser state live: contiguous runs in one or more banks. Within a bank
// parameters with one rule and one kind of decay lie together, so an update is few kernel calls; those with the most
// state come first, so that no slot is longer than what it is for. Every tensor starts at a multiple of 16 bytes and
// is padded with zeros, which no kernel changes.

import type { RegionTensor } from "../../optim/optimizer.js";
import type { TensorData } from "../../tensor/dtype.js";
import { Bank, maxBankBytes } from "../../tensor/kernels/bank.js";
import { sizeOf } from "../../tensor/shape.js";
import { invariant, ModelError } from "../../util/errors.js";
import { groupBy } from "../../util/group-by.js";
import { type EngineParameter, type EngineSnapshot, gradientResult } from "./contract.js";

/** What the rule of a parameter keeps for it. */
export type SlotsOf = (parameter: EngineParameter) => readonly string[];

/** Share of a bank that state may fill; the rest is for scratch of compiled graphs. */
const stateShare = 0.8;
const paddedLength = (length: number) => Math.ceil(length / 16) * 16;

interface Placement {
  readonly parameter: EngineParameter;
  readonly bank: number;
  /** In values, from the start of each array of its bank. */
  readonly start: number;
  readonly length: number;
  /** Names of its slots, in the order of the bank's. */
  readonly slots: readonly string[];
}

/** Neighbours in a bank that are updated alike. Positions in values. */
export interface StoreRegion {
  /** Undefined: the engine's own rule. */
  readonly rule: string | undefined;
  readonly decays: boolean;
  readonly start: number;
  readonly length: number;
  readonly slotCount: number;
  readonly tensors: readonly RegionTensor[];
}

/** One bank's arrays: equally long, equally laid out. */
export interface BankArrays {
  readonly bank: Bank;
  readonly parameters: number;
  readonly gradients: number;
  /** Where microbatches after the first put their gradients until they are added; made when first needed. */
  accumulator: number | undefined;
  readonly slots: readonly number[];
  /** Values of each slot: the front part of the bank that has it. */
  readonly slotLengths: readonly number[];
  readonly regions: readonly StoreRegion[];
  readonly trainable: number;
  readonly length: number;
}

export class ParameterStore {
  readonly banks: readonly BankArrays[];
  readonly #placements = new Map<string, Placement>();
  readonly #views = new Map<string, TensorData>();
  readonly #slotsOf: SlotsOf;

  constructor(
    kernels: WebAssembly.Module,
    parameters: readonly EngineParameter[],
    slots: readonly string[] | SlotsOf,
    private readonly isTraining: boolean,
    bankBytes = maxBankBytes,
  ) {
    this.#slotsOf = typeof slots === "function" ? slots : () => slots;
    const most = Math.max(0, ...parameters.map((parameter) => this.#slotsOf(parameter).length));
    const arrays = isTraining ? 3 + most : 1;
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
    const index = this.slotsOf(name).indexOf(slot);
    return this.#view(slot, name, (arrays) => arrays.slots[index]!);
  }

  /**
   * Copies of all parameters and slots, one buffer per bank: its parameters, then each slot. A buffer of `reuse` that
   * has the right size is taken; its content is written over.
   */
  snapshot(reuse: readonly SharedArrayBuffer[]): EngineSnapshot {
    const free = [...reuse];
    const sizes = this.snapshotBytes();
    const layouts = this.banks.map(({ bank, parameters, slots, slotLengths, length }, index) => {
      const sizeBytes = sizes[index]!;
      const found = free.findIndex((buffer) => buffer.byteLength === sizeBytes);
      const buffer = found >= 0 ? free.splice(found, 1)[0]! : new SharedArrayBuffer(sizeBytes);
      const target = new Float32Array(buffer);
      target.set(bank.float32(parameters, length));
      const starts: number[] = [];
      let end = length;
      for (const [order, slot] of slots.entries()) {
        starts.push(end);
        target.set(bank.float32(slot, slotLengths[order]!), end);
        end += slotLengths[order]!;
      }
      return { buffer, starts };
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
            const { starts } = layouts[placement.bank]!;
            return placement.slots.map(
              (slot, index) => [`${name}.${slot}`, view(placement, starts[index]!)] as const,
            );
          }),
      ),
      buffers: layouts.map(({ buffer }) => buffer),
    };
  }

  /** Sizes of the buffers that {@link snapshot} fills. */
  snapshotBytes(): number[] {
    return this.banks.map(({ length, slotLengths }) => 4 * slotLengths.reduce((sum, n) => sum + n, length));
  }

  has(name: string): boolean {
    return this.#placements.has(name);
  }

  /** Names of what its rule keeps for `name`. */
  slotsOf(name: string): readonly string[] {
    return this.#placements.get(name)?.slots ?? [];
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
    const slotsOf = (p: EngineParameter) => (this.isTraining && p.trainable ? this.#slotsOf(p) : []);
    const groups = groupBy(group, (p) =>
      p.trainable ? `${9 - slotsOf(p).length} ${p.rule ?? ""} ${p.decays ? 0 : 1}` : "~",
    );
    const regions: StoreRegion[] = [];
    let start = 0;
    for (const [, members] of [...groups].sort(([a], [b]) => (a < b ? -1 : 1))) {
      const first = start;
      const tensors: RegionTensor[] = [];
      const [{ rule, decays, trainable }] = members as [EngineParameter];
      for (const parameter of members) {
        const length = sizeOf(parameter.shape);
        const slots = slotsOf(parameter);
        this.#placements.set(parameter.name, { parameter, bank: bankIndex, start, length, slots });
        tensors.push({ start: start - first, length: paddedLength(length), shape: parameter.shape });
        start += paddedLength(length);
      }
      const slotCount = slotsOf(members[0]!).length;
      if (trainable) regions.push({ rule, decays, start: first, length: start - first, slotCount, tensors });
    }
    const endOf = (last: StoreRegion | undefined) => (last ? last.start + last.length : 0);
    const slotLengths = Array.from({ length: Math.max(0, ...regions.map((r) => r.slotCount)) }, (_, index) =>
      endOf(regions.findLast(({ slotCount }) => slotCount > index)),
    );
    const values = slotLengths.reduce((sum, n) => sum + n, (this.isTraining ? 2 : 1) * start);
    const bank = new Bank(kernels, 4 * values);
    const take = (length = start) => this.#allocateCleared(bank, length);
    return {
      bank,
      parameters: take(),
      gradients: this.isTraining ? take() : 0,
      accumulator: undefined,
      slots: slotLengths.map((length) => take(length)),
      slotLengths,
      regions,
      trainable: endOf(regions.at(-1)),
      length: start,
    };
  }

  #allocateCleared(bank: Bank, length: number): number {
    const offset = bank.allocate(4 * length);
    bank.kernels.clear(offset, length);
    return offset;
  }
}
