// The whole state dict through the coordinator's seam: what the engine holds, buffers of the model, and tied names.

import type { SyncCoordinator } from "speedtronic";
import { Buffer, initialize, ReferenceTransformer } from "speedtronic/nn";
import type { CoordinatedRun } from "speedtronic/train";
import { expect, it } from "vitest";
import { localTrainer } from "./helpers.js";

class Counted extends ReferenceTransformer {
  readonly seen = new Buffer({ dtype: "int32", shape: [1], data: Int32Array.of(3) });
}

function tiedModel(): Counted {
  const shape = { vocabSize: 13, blockSize: 8, nLayer: 1, nHead: 2, nKvHead: 1, dModel: 12, dFf: 20 };
  const model = new Counted({ ...shape, tieWeights: true });
  initialize(model, 1);
  return model;
}

async function during(work: (run: CoordinatedRun, model: Counted) => Promise<void>): Promise<Counted> {
  const model = tiedModel();
  const coordinator: SyncCoordinator = {
    start: () => undefined,
    afterOptimizerStep: async (run) => {
      await work(run, model);
      return undefined;
    },
    stop: () => undefined,
    stateDict: () => null,
    loadStateDict: () => undefined,
  };
  const { trainer, close } = await localTrainer({ model, coordinator, maxSteps: 1 });
  await trainer.fit();
  await close();
  return model;
}

it("is read under every name of the state dict, as copies, tied names as one object", async () => {
  await during(async (run, model) => {
    const state = await run.readState();
    expect([...state.keys()]).toEqual(model.stateEntries().map(({ name }) => name));
    const objects = new Set([...state.values()].map(({ data }) => data));
    expect(objects.size).toBe(state.size - 1);
    expect(state.get("seen")).toEqual({ dtype: "int32", shape: [1], data: Int32Array.of(3) });
    const parameters = await run.readParameters();
    for (const [name, { data }] of parameters) expect(state.get(name)!.data).toEqual(data);
    for (const { data } of state.values()) data.fill(9);
    expect(await run.readParameters()).toEqual(parameters);
    expect([...model.seen.value.data]).toEqual([3]);
    expect(run.tokens).toBeGreaterThan(0);
  });
});

it("is written as a whole or not at all", async () => {
  const model = await during(async (run) => {
    const state = await run.readState();
    for (const { data } of state.values()) data.fill(2);
    await run.writeState(state);
    for (const { data } of (await run.readState()).values()) expect(new Set(data)).toEqual(new Set([2]));
    const part = new Map([...state].slice(1));
    for (const { data } of part.values()) data.fill(5);
    await expect(run.writeState(part)).rejects.toMatchObject({ code: "model.incomplete_state" });
    for (const { data } of (await run.readState()).values()) expect(new Set(data)).toEqual(new Set([2]));
  });
  expect([...model.seen.value.data]).toEqual([2]);
  for (const parameter of model.namedParameters().values())
    expect(new Set(parameter.data)).toEqual(new Set([2]));
});
