// Parameters spread over several banks behave as in one: same values, same norm, same updates, also when
// graphs write their gradients there.

import { ModelError } from "speedtronic";
import { traceTraining } from "speedtronic/train";
import { describe, expect, it } from "vitest";
import { optimizers } from "../../src/optim/index.js";
import { createOnnxBackend } from "../../src/tensor/backends/onnx/backend.node.js";
import { loadKernels } from "../../src/tensor/kernels/load.node.js";
import { gradientResult, parameterFeed } from "../../src/train/engine/contract.js";
import { ParameterStore } from "../../src/train/engine/parameter-store.js";
import { adamw, differences, engineParameters, parametersOf, smallTransformer, tokens } from "./fixtures.js";

const { slots, update } = optimizers.adamw!;

/** A store with the model's values in banks of at most `bankBytes`. */
async function storeOf(model = smallTransformer(), bankBytes?: number): Promise<ParameterStore> {
  const store = new ParameterStore(await loadKernels(), engineParameters(model), slots, true, bankBytes);
  for (const [name, { data }] of parametersOf(model)) store.parameter(name).data.set(data);
  return store;
}

function applyAdamw(store: ParameterStore, count: number): void {
  for (const { bank, parameters, gradients, slots: offsets, regions } of store.banks)
    for (const { start, length, decays } of regions)
      update(
        bank.kernels,
        {
          parameter: parameters + 4 * start,
          gradient: gradients + 4 * start,
          slots: offsets.map((offset) => offset + 4 * start),
          length,
          decays,
        },
        adamw.hyper,
        { lr: 0.01, count, gradScale: 0.5 },
      );
}

const valuesOf = (store: ParameterStore, kind: "parameter" | "gradient" | "accumulator" = "parameter") =>
  new Map(store.names().map((name) => [name, store[kind](name)]));

// The largest tensor (13 × 12, padded to 160 values) with five arrays fills most of such a bank.
const smallBank = 4 * 5 * 250;

describe("several banks", () => {
  it("hold every tensor once and whole", async () => {
    const store = await storeOf(smallTransformer(), smallBank);
    expect(store.banks.length).toBeGreaterThan(5);
    expect(new Map(store.names().map((name) => [name, store.parameter(name)]))).toEqual(
      new Map(store.names().map((name) => [name, parametersOf(smallTransformer()).get(name)!])),
    );
    const banksUsed = new Set(store.names().map((name) => store.bankOf(gradientResult(name))));
    expect(banksUsed.size).toBe(store.banks.length);
  });

  it("train to the same bits as one bank, with graphs writing into them", async () => {
    const model = smallTransformer({ dropout: 0 });
    const runs: { store: ParameterStore; norms: number[] }[] = [];
    for (const bankBytes of [undefined, smallBank]) {
      const store = await storeOf(model, bankBytes);
      const backend = await createOnnxBackend({
        threads: 1,
        bank: store.banks[0]!.bank,
        bankOf: (result) => store.bankOf(result),
      });
      const executable = await backend.compile(traceTraining(model, tokens(2, 8)));
      const norms: number[] = [];
      for (let count = 1; count <= 4; count++) {
        const feeds = { ...tokens(2, 8, { salt: count }) };
        for (const name of store.names())
          feeds[parameterFeed(name) as keyof typeof feeds] = store.parameter(name);
        const into = Object.fromEntries(
          store.names().map((name) => [gradientResult(name), store.gradient(name)]),
        );
        await executable.run(feeds, into);
        let squares = 0;
        for (const { bank, gradients, trainable } of store.banks)
          squares += bank.kernels.sumOfSquares(gradients, trainable);
        norms.push(Math.sqrt(squares));
        applyAdamw(store, count);
      }
      runs.push({ store, norms });
      await executable.close();
    }
    const [one, several] = runs as [(typeof runs)[0], (typeof runs)[0]];
    expect([one.store.banks.length, several.store.banks.length > 5]).toEqual([1, true]);
    for (const [i, norm] of one.norms.entries()) expect(several.norms[i]! / norm).toBeCloseTo(1, 12);
    expect(valuesOf(several.store)).toEqual(valuesOf(one.store));
    expect(differences(valuesOf(one.store), parametersOf(model), 1e-9)).not.toEqual({});
  });

  it("grow for accumulators and keep what they hold", async () => {
    const store = await storeOf(smallTransformer(), smallBank);
    const before = new Map([...valuesOf(store)].map(([name, t]) => [name, { ...t, data: t.data.slice() }]));
    for (const name of store.names()) {
      store.gradient(name).data.fill(2);
      store.accumulator(name).data.fill(3);
    }
    expect(valuesOf(store)).toEqual(before);
    for (const name of store.names()) {
      expect(store.gradient(name).data.every((x) => x === 2)).toBe(true);
      expect(store.accumulator(name).data.every((x) => x === 3)).toBe(true);
    }
  });
});

describe("a parameter larger than a bank", () => {
  it("is refused by name", async () => {
    const attempt = storeOf(smallTransformer(), 4 * 5 * 100);
    await expect(attempt).rejects.toThrow(ModelError);
    await expect(attempt).rejects.toMatchObject({
      code: "engine.parameter_too_large",
      message: "parameter transformer.wte.weight has 156 values; one tensor may have at most 80",
    });
  });
});
