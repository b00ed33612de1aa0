// What crosses between engine and checkpoint: one copy out, pieces in, and the state of modules outside tensors.

import { loadCheckpoint, loadWeights, openCheckpoint, weightsOfReader } from "speedtronic/checkpoint";
import { Buffer, type ExtraState, ReferenceTransformer } from "speedtronic/nn";
import { encodeSafetensors } from "speedtronic/safetensors";
import { WorkerEngine } from "speedtronic/train";
import { describe, expect, it } from "vitest";

import { bytesSource, openSafetensors } from "../../src/formats/safetensors/index.js";
import { engineFor, engineOptions, parametersOf, smallTransformer } from "../engine/fixtures.js";
import { localTrainer, recordEvents, temporaryFolder } from "./helpers.js";

describe.each(["local", "worker"])("a snapshot of the %s engine", (kind) => {
  async function newEngine() {
    const model = smallTransformer();
    if (kind === "local") return engineFor(model, "reference");
    const engine = new WorkerEngine();
    await engine.create(engineOptions(model, "reference"));
    await engine.writeParameters(parametersOf(model));
    return engine;
  }

  it("is parameters and moments, in one buffer per bank, and takes given buffers again", async () => {
    const engine = await newEngine();
    const { snapshotBytes, slots } = await engine.describe();
    expect(new Set([...slots.values()].flat())).toEqual(new Set(["exp_avg", "exp_avg_sq"]));
    const first = await engine.snapshot();
    expect(first.buffers.map((buffer) => buffer.byteLength)).toEqual(snapshotBytes);
    expect(first.parameters).toEqual(await engine.readParameters());
    expect(first.optimizer).toEqual(await engine.readOptimizer());
    const [name, value] = [...first.parameters][0]!;
    expect(value.data.buffer).toBe(first.buffers[0]);

    const changed = { ...value, data: new Float32Array(value.data.length).fill(7) };
    await engine.writeParameters(new Map([[name, changed]]));
    // A copy: what is written later does not show in it.
    expect(first.parameters.get(name)!.data).not.toEqual(changed.data);
    const [buffer] = first.buffers;
    const second = await engine.snapshot(first.buffers);
    if (kind === "local") expect(second.buffers[0]).toBe(buffer);
    // The same memory, written over: also in a worker, for which it never changes hands.
    expect(buffer!.byteLength).toBe(snapshotBytes[0]);
    expect(first.parameters.get(name)!.data).toEqual(changed.data);
    expect(second.parameters).toEqual(await engine.readParameters());
    // Buffers of another size are of no use, and no harm.
    expect((await engine.snapshot([new SharedArrayBuffer(8)])).parameters).toEqual(second.parameters);
    await engine.close();
  });

  it("takes pieces of one array, and gives the memory back", async () => {
    const engine = await newEngine();
    const name = "transformer.ln_f.weight";
    const values = await engine.writePart(
      { parameter: name, slot: "exp_avg", begin: 2 },
      Float32Array.of(5, 6, 7),
      2,
    );
    expect(values).toEqual(Float32Array.of(5, 6, 7));
    expect([...(await engine.readOptimizer()).get(`${name}.exp_avg`)!.data].slice(0, 5)).toEqual([
      0, 0, 5, 6, 0,
    ]);
    await engine.writePart({ parameter: name, slot: null, begin: 0 }, Float32Array.of(9), 1);
    expect([...(await engine.readParameters()).get(name)!.data].slice(0, 2)).toEqual([9, 1]);
    for (const wrong of [
      { parameter: "x", slot: null },
      { parameter: name, slot: "momentum" },
    ])
      await expect(engine.writePart({ ...wrong, begin: 0 }, new Float32Array(1), 1)).rejects.toMatchObject({
        code: "engine.unknown_tensor",
      });
    await engine.close();
  });
});

/** Counts its forward passes, and has a table that is saved and one that is built. */
class Counting extends ReferenceTransformer {
  readonly saved = new Buffer({ dtype: "int32", shape: [2], data: Int32Array.of(1, 2) });
  readonly built = new Buffer(
    { dtype: "float32", shape: [1], data: Float32Array.of(0.5) },
    { persistent: false },
  );
  traces = 0;

  override forward(...args: Parameters<ReferenceTransformer["forward"]>) {
    this.traces += 1;
    return super.forward(...args);
  }

  override getExtraState(): ExtraState {
    return { traces: this.traces };
  }

  override setExtraState(state: ExtraState): void {
    const { traces } = state as { traces: unknown };
    if (typeof traces !== "number") throw new TypeError(`traces must be a number, is ${typeof traces}`);
    this.traces = traces;
  }
}

const shape = { vocabSize: 13, blockSize: 8, nLayer: 1, nHead: 2, dModel: 8, dFf: 12 };

describe("a model with state of its own", () => {
  it("gets all of it back: persistent buffers, state outside tensors; built tables stay as built", async () => {
    const [folder, events] = [temporaryFolder(), recordEvents()];
    const model = new Counting(shape);
    model.saved.value.data[1] = 40;
    const first = await localTrainer({ model, folder, maxSteps: 3, everySteps: 1 });
    await first.trainer.fit();
    await first.close();
    expect(model.traces).toBeGreaterThan(0);

    const fresh = new Counting(shape);
    fresh.built.value.data[0] = 0.25;
    const second = await localTrainer({ model: fresh, folder, maxSteps: 3, events });
    const opened = await openCheckpoint(folder);
    expect(opened.content.model.entries.has("saved")).toBe(true);
    expect(opened.content.model.entries.has("built")).toBe(false);
    await second.trainer.resume(opened);
    await opened.content.close();
    expect([fresh.traces, [...fresh.saved.value.data], [...fresh.built.value.data]]).toEqual([
      model.traces,
      [1, 40],
      [0.25],
    ]);
    await second.close();
  });

  it("is left as it was when it refuses its state", async () => {
    const folder = temporaryFolder();
    const first = await localTrainer({ model: new Counting(shape), folder, maxSteps: 1 });
    await first.trainer.fit();
    await first.close();
    const loaded = await loadCheckpoint(folder);
    const model = new Counting(shape);
    model.traces = 77;
    const second = await localTrainer({ model, folder });
    const before = await second.engine.readParameters();
    for (const modules of [{ "": { traces: "many" } }, {}, { "": { traces: 1 }, "transformer.ln_f": 2 }]) {
      await expect(
        second.trainer.resume({ ...loaded, content: { ...loaded.content, modules } }),
      ).rejects.toThrow(
        /traces must be a number|no state for ""|no place for the state of "transformer.ln_f"/,
      );
      expect([model.traces, second.trainer.step]).toEqual([77, 0]);
      expect(await second.engine.readParameters()).toEqual(before);
    }
    // Nothing was touched, so it may go on.
    await second.trainer.fit();
    await second.close();
  });
});

it("tied tensors that a file gives different values are refused", async () => {
  const model = smallTransformer();
  const tensors = [...model.stateDict()].map(([name, value]) => ({
    name,
    dtype: "F32" as const,
    shape: value.shape,
    data: name === "lm_head.weight" ? value.data.map((x) => x + 1) : value.data,
  }));
  const source = weightsOfReader(
    await openSafetensors(bytesSource(encodeSafetensors(tensors), "tied.safetensors")),
  );
  await expect(loadWeights(smallTransformer({}, 2), source)).rejects.toMatchObject({
    code: "checkpoint.tied_values_differ",
    details: { names: expect.arrayContaining(["lm_head.weight", "transformer.wte.weight"]) },
  });
});
