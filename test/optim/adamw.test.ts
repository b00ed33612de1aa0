// The AdamW kernel against the formula in float64 and against PyTorch's own numbers, through the store that
// training keeps its state in.

import { describe, expect, it } from "vitest";
import { optimizers, type UpdateStep } from "../../src/optim/index.js";
import { loadKernels } from "../../src/tensor/kernels/load.node.js";
import type { EngineParameter } from "../../src/train/engine/contract.js";
import { type BankArrays, ParameterStore } from "../../src/train/engine/parameter-store.js";

const adamw = optimizers.adamw!;
const hyper = { betas: [0.9, 0.95], eps: 1e-8, weightDecay: 0.1 } as const;

const parameter = (
  name: string,
  shape: readonly number[],
  decays: boolean,
  trainable = true,
): EngineParameter => ({ name, shape, decays, trainable });

/** One update of everything trainable, as the engine does it. */
function update(store: ParameterStore, step: UpdateStep): void {
  for (const arrays of store.banks) {
    for (const { start, length, decays } of arrays.regions)
      adamw.update(arrays.bank.kernels, region(arrays, start, length, decays), hyper, step);
  }
}

function region(
  { parameters, gradients, slots }: BankArrays,
  start: number,
  length: number,
  decays: boolean,
) {
  return {
    parameter: parameters + 4 * start,
    gradient: gradients + 4 * start,
    slots: slots.map((offset) => offset + 4 * start),
    length,
    decays,
  };
}

/** The same in float64, straight from the definition. */
class PlainAdamW {
  readonly m: Float64Array;
  readonly v: Float64Array;

  constructor(
    readonly p: Float64Array,
    private readonly decays: boolean,
  ) {
    this.m = new Float64Array(p.length);
    this.v = new Float64Array(p.length);
  }

  update(gradient: ArrayLike<number>, { lr, count, gradScale }: UpdateStep): void {
    const { betas, eps, weightDecay } = hyper;
    for (let i = 0; i < this.p.length; i++) {
      const g = gradient[i]! * gradScale;
      if (this.decays) this.p[i]! *= 1 - lr * weightDecay;
      this.m[i] = betas[0] * this.m[i]! + (1 - betas[0]) * g;
      this.v[i] = betas[1] * this.v[i]! + (1 - betas[1]) * g * g;
      const mean = this.m[i]! / (1 - betas[0] ** count);
      const variance = this.v[i]! / (1 - betas[1] ** count);
      this.p[i]! -= (lr * mean) / (Math.sqrt(variance) + eps);
    }
  }
}

const wave = (i: number, salt: number) => Math.sin(1.7 * i + 0.9 * salt + 0.3);

/** Largest difference relative to the largest value. */
function distance(actual: ArrayLike<number>, expected: ArrayLike<number>): number {
  const scale = Math.max(...Array.from(expected, Math.abs));
  return Math.max(...Array.from(expected, (value, i) => Math.abs(actual[i]! - value))) / scale;
}

const parameters = [
  parameter("norm", [7], false),
  parameter("weight", [5, 7], true),
  parameter("frozen", [3, 3], true, false),
  parameter("head", [2, 3, 11], true),
];

async function filledStore(): Promise<ParameterStore> {
  const store = new ParameterStore(await loadKernels(), parameters, adamw.slots, true);
  for (const [salt, { name }] of parameters.entries()) {
    const { data } = store.parameter(name);
    for (let i = 0; i < data.length; i++) data[i] = wave(i, salt);
  }
  return store;
}

describe("adamw", () => {
  it("follows the formula over 50 updates, in both decay groups", async () => {
    const store = await filledStore();
    const peers = new Map(
      parameters.map(({ name, decays }) => [
        name,
        new PlainAdamW(Float64Array.from(store.parameter(name).data), decays),
      ]),
    );
    const frozen = store.parameter("frozen").data.slice();
    for (let count = 1; count <= 50; count++) {
      const step = {
        lr: 0.02 / Math.sqrt(count),
        count,
        gradScale: count % 3 === 0 ? 0.25 : 2 ** -(count % 5),
      };
      for (const [salt, { name, trainable }] of parameters.entries()) {
        if (!trainable) continue;
        const { data } = store.gradient(name);
        for (let i = 0; i < data.length; i++) data[i] = 3 * wave(i * count, salt + count);
        peers.get(name)!.update(data, step);
      }
      update(store, step);
    }
    for (const { name, trainable } of parameters.filter((p) => p.trainable)) {
      const peer = peers.get(name)!;
      expect([name, trainable]).toEqual([name, true]);
      expect(distance(store.parameter(name).data, peer.p)).toBeLessThan(2e-6);
      expect(distance(store.slot("exp_avg", name).data, peer.m)).toBeLessThan(2e-6);
      expect(distance(store.slot("exp_avg_sq", name).data, peer.v)).toBeLessThan(2e-6);
    }
    expect(store.parameter("frozen").data).toEqual(frozen);
  });

  it("gives PyTorch's numbers (torch 2.13, float32, 5 updates at lr 0.02 / t)", async () => {
    const store = new ParameterStore(
      await loadKernels(),
      [parameter("w", [1, 4], true), parameter("b", [4], false)],
      adamw.slots,
      true,
    );
    const fill = (data: ArrayLike<number>, value: (i: number) => number) => {
      for (let i = 0; i < data.length; i++) (data as Float32Array)[i] = value(i);
    };
    fill(store.parameter("w").data, (i) => Math.sin(i + 1));
    fill(store.parameter("b").data, (i) => Math.cos(i + 1));
    for (let t = 1; t <= 5; t++) {
      fill(store.gradient("w").data, (i) => Math.sin(3 * t + i));
      fill(store.gradient("b").data, (i) => Math.cos(3 * t + i) * 1e-3);
      update(store, { lr: 0.02 / t, count: t, gradScale: 1 });
    }
    const torch = {
      w: [0.8193125128746033, 0.9282758235931396, 0.16245929896831512, -0.7335642576217651],
      b: [0.5627483129501343, -0.394838809967041, -1.0156127214431763, -0.6762351989746094],
      "w exp_avg": [0.03900831565260887, -0.03680049628019333, -0.07877510040998459, -0.04832423850893974],
      "w exp_avg_sq": [0.04664149880409241, 0.0677141472697258, 0.21735985577106476, 0.07173802703619003],
      "b exp_avg": [-6.87804858898744e-5, -6.998661410761997e-5, -6.847381428087829e-6, 6.25873071840033e-5],
      "b exp_avg_sq": [
        1.7957756881514797e-7, 1.585049176355824e-7, 8.859211142464574e-9, 1.5448102885784465e-7,
      ],
    };
    for (const [key, expected] of Object.entries(torch)) {
      const [name, slot] = key.split(" ") as [string, string | undefined];
      const { data } = slot ? store.slot(slot, name) : store.parameter(name);
      expect([key, distance(data, expected) < 5e-7]).toEqual([key, true]);
    }
  });

  it("multiplies gradients by gradScale: halves with scale 2 are the same bits", async () => {
    const [whole, halved] = [await filledStore(), await filledStore()];
    for (let count = 1; count <= 3; count++) {
      for (const [store, factor] of [
        [whole, 1],
        [halved, 0.5],
      ] as const) {
        for (const name of store.trainableNames()) {
          const { data } = store.gradient(name);
          for (let i = 0; i < data.length; i++) data[i] = factor * wave(i, count);
        }
        update(store, { lr: 0.01, count, gradScale: 1 / factor });
      }
    }
    for (const name of whole.names()) expect(halved.parameter(name).data).toEqual(whole.parameter(name).data);
  });

  it("leaves the padding between tensors at zero", async () => {
    const store = await filledStore();
    for (let count = 1; count <= 5; count++) {
      for (const name of store.trainableNames()) store.gradient(name).data.fill(count);
      update(store, { lr: 0.1, count, gradScale: 1 });
    }
    const values = parameters.reduce((sum, p) => sum + p.shape.reduce((a, b) => a * b, 1), 0);
    const [arrays] = store.banks as [BankArrays];
    expect(arrays.length).toBeGreaterThan(values);
    const runs = [
      [arrays.parameters, arrays.length],
      [arrays.gradients, arrays.length],
      ...arrays.slots.map((offset, index) => [offset, arrays.slotLengths[index]!]),
    ] as [number, number][];
    for (const [offset, length] of runs) {
      const all = arrays.bank.float32(offset, length);
      expect(all.filter((x) => x !== 0).length).toBeLessThanOrEqual(values);
    }
    // Blank out what belongs to tensors: nothing else may remain.
    for (const name of store.names()) {
      store.parameter(name).data.fill(0);
      store.gradient(name).data.fill(0);
      for (const slot of store.slotsOf(name)) store.slot(slot, name).data.fill(0);
    }
    for (const [offset, length] of runs)
      expect(arrays.bank.float32(offset, length).every((x) => x === 0)).toBe(true);
  });
});
