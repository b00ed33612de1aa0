// Does the host's part of an executable: fills dropout masks before a run, adds rows to results after it.
// Uses the SIMD kernels for arrays that lie in a bank, plain loops elsewhere; both give the same bits.
// All scratch is reserved here when the executable is made: a run never grows a bank under its caller's views.

import { ModelError } from "../../../util/errors.js";
import type { TensorData } from "../../dtype.js";
import type { Bank } from "../../kernels/bank.js";
import { dropoutKeys, dropoutScale, dropoutThreshold } from "../../random.js";
import { sizeOf } from "../../shape.js";
import type { Feeds } from "../backend.js";
import type { HostPlan, MaskPlan, ScatterPlan } from "./host-plan.js";

/** A lasting array in a bank. The view is renewed when the bank has grown since. */
class Scratch {
  readonly offset: number;
  #view: TensorData | undefined;

  constructor(
    readonly bank: Bank,
    private readonly dtype: "float32" | "int32",
    private readonly shape: readonly number[],
  ) {
    // Kernels work on multiples of 4 values.
    this.offset = bank.allocate(4 * sizeOf(shape) + 16);
  }

  get data(): TensorData {
    if (!this.#view || !this.bank.owns(this.#view.data)) {
      const size = sizeOf(this.shape);
      const data =
        this.dtype === "int32" ? this.bank.int32(this.offset, size) : this.bank.float32(this.offset, size);
      this.#view = { dtype: this.dtype, shape: this.shape, data };
    }
    return this.#view;
  }
}

export class HostWork {
  readonly #masks: readonly { readonly plan: MaskPlan; readonly scratch: Scratch }[];
  /** Results of the ONNX graph that only the host reads. */
  readonly #fetched = new Map<string, Scratch>();
  /** Room for fed indices next to the table they point into. */
  readonly #indices = new Map<ScatterPlan, Scratch>();

  constructor(
    private readonly plan: HostPlan,
    scratchBank: Bank,
    bankOf: (result: string) => Bank,
  ) {
    this.#masks = plan.masks.map((mask) => ({
      plan: mask,
      scratch: new Scratch(scratchBank, "float32", mask.shape),
    }));
    const types = new Map(plan.graph.outputs.map(({ name, value }) => [name, plan.graph.values[value]!]));
    for (const scatter of plan.scatters) {
      const bank = bankOf(scatter.output);
      for (const name of [scatter.updates, scatter.indices]) {
        const type = types.get(name);
        if (type && !this.#fetched.has(name))
          this.#fetched.set(name, new Scratch(bank, type.dtype as "float32" | "int32", type.shape));
      }
      if (!types.has(scatter.indices)) this.#indices.set(scatter, new Scratch(bank, "int32", [scatter.rows]));
    }
  }

  /** What else must be fed, and where each result of the ONNX graph is to be written. */
  before(
    feeds: Feeds,
    results: Feeds,
  ): { extraFeeds: Record<string, TensorData>; fetches: Record<string, TensorData> } {
    const extraFeeds: Record<string, TensorData> = {};
    for (const { plan, scratch } of this.#masks) {
      const [seed, draw] = feeds[plan.rng]!.data as Int32Array;
      const [key0, key1] = dropoutKeys(seed!, draw!, plan.site);
      const padded = Math.ceil(sizeOf(plan.shape) / 4) * 4;
      const { kernels } = scratch.bank;
      kernels.dropoutMask(
        scratch.offset,
        padded,
        key0,
        key1,
        dropoutThreshold(plan.rate),
        dropoutScale(plan.rate),
      );
      extraFeeds[plan.name] = scratch.data;
    }
    const fetches: Record<string, TensorData> = {};
    for (const { name } of this.plan.graph.outputs)
      fetches[name] = results[name] ?? this.#fetched.get(name)!.data;
    return { extraFeeds, fetches };
  }

  /** Applies the scatter-adds to `results`. Throws ModelError for an index outside the table. */
  after(feeds: Feeds, results: Feeds): void {
    for (const name of this.plan.zeroed) results[name]!.data.fill(0);
    const read = (name: string): TensorData => feeds[name] ?? this.#fetched.get(name)!.data;
    for (const scatter of this.plan.scatters)
      this.#scatter(
        scatter,
        results[scatter.output]!.data,
        read(scatter.indices).data,
        read(scatter.updates).data,
      );
  }

  close(): void {
    const all = [...this.#masks.map((m) => m.scratch), ...this.#fetched.values(), ...this.#indices.values()];
    for (const { bank, offset } of all) bank.release(offset);
  }

  #scatter(
    plan: ScatterPlan,
    table: TensorData["data"],
    indices: TensorData["data"],
    updates: TensorData["data"],
  ): void {
    const tableRows = plan.shape[0]!;
    const width = sizeOf(plan.shape.slice(1));
    const scratch = this.#indices.get(plan);
    if (scratch) scratch.data.data.set(indices);
    const ids = scratch ? scratch.data.data : indices;
    const bank = this.#fetched.get(plan.updates)?.bank;
    const bad =
      bank?.owns(table) && bank.owns(ids)
        ? bank.kernels.scatterAdd(
            table.byteOffset,
            tableRows,
            ids.byteOffset,
            updates.byteOffset,
            plan.rows,
            width,
          )
        : scatterAddRows(table, tableRows, ids, updates, width);
    if (bad >= 0)
      throw new ModelError(
        `index ${ids[bad]} at position ${bad} is outside the table of ${tableRows} rows (gradient of a gather)`,
        { code: "tensor.index_out_of_range", details: { index: ids[bad], position: bad, rows: tableRows } },
      );
  }
}

/** Plain form of the kernel of the same name: −1, or the first position with an index out of range. */
function scatterAddRows(
  table: TensorData["data"],
  tableRows: number,
  ids: TensorData["data"],
  updates: TensorData["data"],
  width: number,
): number {
  for (let r = 0; r < ids.length; r++) {
    const id = ids[r]!;
    if (id < 0 || id >= tableRows) return r;
    for (let j = 0; j < width; j++) table[id * width + j]! += updates[r * width + j]!;
  }
  return -1;
}
