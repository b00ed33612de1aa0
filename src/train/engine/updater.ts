// Runs the rules of the optimiser over all regions of a store, and has the matrix products that Muon needs done by
// the engine's backend: one compiled graph per shape of a stack of matrices.

import { optimizerNamed } from "../../optim/index.js";
import {
  directionFeed,
  orthogonalizeGraph,
  orthogonalResult,
  type StackShape,
} from "../../optim/newton-schulz.js";
import type { UpdateStep, Workspace } from "../../optim/optimizer.js";
import type { Backend, Executable } from "../../tensor/backends/backend.js";
import type { TensorData } from "../../tensor/dtype.js";
import type { Bank } from "../../tensor/kernels/bank.js";
import { invariant } from "../../util/errors.js";
import type { EngineOptions } from "./contract.js";
import type { BankArrays, ParameterStore } from "./parameter-store.js";

/** Values that one stack of matrices may have, unless a single matrix has more. */
const stackValues = 1 << 22;

interface Compiled {
  readonly executable: Executable;
  feed: TensorData;
  result: TensorData;
}

export class Updater {
  readonly #compiled = new Map<string, Compiled>();
  readonly #workspaces = new Map<BankArrays, Workspace>();

  constructor(
    private readonly options: NonNullable<EngineOptions["optimizer"]>,
    private readonly store: ParameterStore,
    private readonly backend: Backend,
  ) {}

  /** One update of everything trainable from the store's gradients. */
  async update(step: UpdateStep): Promise<void> {
    const { name, hyper } = this.options;
    for (const arrays of this.store.banks) {
      const { bank, parameters, gradients, slots, regions } = arrays;
      const workspace = this.#workspace(arrays);
      for (const { rule = name, start, length, decays, slotCount, tensors } of regions) {
        const region = {
          parameter: parameters + 4 * start,
          gradient: gradients + 4 * start,
          slots: slots.slice(0, slotCount).map((offset) => offset + 4 * start),
          length,
          decays,
          tensors,
        };
        const optimizer = optimizerNamed(rule);
        invariant(optimizer, `rule ${rule} is in the table`);
        await optimizer.update(bank.kernels, region, hyper, step, workspace);
      }
    }
  }

  async close(): Promise<void> {
    for (const { executable } of this.#compiled.values()) await executable.close();
    this.#compiled.clear();
  }

  /** Takes memory only for the rules that need some. */
  #workspace(arrays: BankArrays): Workspace {
    const known = this.#workspaces.get(arrays);
    if (known) return known;
    const { bank, regions } = arrays;
    const { name, hyper } = this.options;
    const lengths = (matrices: boolean) =>
      regions
        .filter(({ rule = name }) => !matrices || optimizerNamed(rule)?.isForMatrices === true)
        .flatMap(({ tensors }) => tensors.map(({ length }) => length));
    const ofMatrices = lengths(true);
    const total = ofMatrices.reduce((sum, length) => sum + length, 0);
    const capacity = Math.max(0, ...ofMatrices, Math.min(total, stackValues));
    const take = (length: number) => {
      if (length === 0) return 0;
      const offset = bank.allocate(4 * length);
      bank.kernels.clear(offset, length);
      return offset;
    };
    const direction = take(capacity);
    const result = take(capacity);
    const workspace: Workspace = {
      before: hyper.cautious ? take(Math.max(0, ...lengths(false))) : 0,
      direction,
      result,
      capacity,
      values: (offset, length) => bank.float32(offset, length),
      orthogonalize: (count, rows, columns) =>
        this.#orthogonalize(bank, direction, result, { count, rows, columns }),
    };
    this.#workspaces.set(arrays, workspace);
    return workspace;
  }

  async #orthogonalize(bank: Bank, direction: number, result: number, stack: StackShape): Promise<void> {
    const shape = [stack.count, stack.rows, stack.columns];
    const length = stack.count * stack.rows * stack.columns;
    const view = (offset: number): TensorData => ({
      dtype: "float32",
      shape,
      data: bank.float32(offset, length),
    });
    const key = `${this.store.banks.findIndex((arrays) => arrays.bank === bank)} ${shape.join()}`;
    let compiled = this.#compiled.get(key);
    if (!compiled) {
      const muon = this.options.hyper.muon;
      invariant(muon, "muon has its constants");
      const graph = orthogonalizeGraph(stack, {
        steps: muon.steps,
        plus: muon.plus,
        plusEps: muon.normEps,
      });
      const executable = await this.backend.compile(graph);
      compiled = { executable, feed: view(direction), result: view(result) };
      this.#compiled.set(key, compiled);
    }
    // Compiling, or anything else, may have grown the bank: views of before are dead then.
    if (!bank.owns(compiled.feed.data)) compiled.feed = view(direction);
    if (!bank.owns(compiled.result.data)) compiled.result = view(result);
    const { executable, feed } = compiled;
    await executable.run({ [directionFeed]: feed }, { [orthogonalResult]: compiled.result });
  }
}
