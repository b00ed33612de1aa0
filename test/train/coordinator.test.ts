// The contract with a coordinator: when it is called, what it may change, and what becomes of its state.

import type { SyncCoordinator } from "speedtronic";
import { loadCheckpoint } from "speedtronic/checkpoint";
import type { TensorData } from "speedtronic/tensor";
import type { CoordinatedRun } from "speedtronic/train";
import { describe, expect, it } from "vitest";
import { distance, smallTransformer } from "../engine/fixtures.js";
import { type LocalTrainerOptions, localTrainer, temporaryFolder } from "./helpers.js";

/** Writes down every call. Its state is the number of steps that it saw. */
class Diary implements SyncCoordinator {
  readonly calls: string[] = [];
  seen = 0;

  constructor(private readonly during: (call: string, run?: CoordinatedRun) => unknown = () => undefined) {}

  async start(run: CoordinatedRun): Promise<void> {
    this.calls.push(`start ${run.step}`);
    await this.during("start", run);
  }

  async afterOptimizerStep(run: CoordinatedRun, step: number): Promise<boolean> {
    this.seen += 1;
    this.calls.push(`step ${step}${run.step === step ? "" : ` of ${run.step}`}`);
    return (await this.during(`step ${step}`, run)) === true;
  }

  async stop(): Promise<void> {
    this.calls.push("stop");
    await this.during("stop");
  }

  stateDict() {
    this.calls.push("state");
    return { seen: this.seen };
  }

  loadStateDict(state: unknown): void {
    this.calls.push(`load ${JSON.stringify(state)}`);
    this.during("load");
    this.seen = (state as { seen: number }).seen;
  }
}

class PreparedDiary extends Diary {
  prepareState(state: unknown): void {
    this.calls.push(`prepare ${JSON.stringify(state)}`);
    this.seen = (state as { seen: number }).seen;
  }
}

const fixed = (values: number[]): TensorData => ({
  dtype: "float32",
  shape: [values.length],
  data: Float32Array.from(values),
});

/** Keeps a tensor too: one and the sum of the steps that it saw. */
class Surveyor extends Diary {
  readonly #sums = Float32Array.of(1, 0);

  override async afterOptimizerStep(run: CoordinatedRun, step: number): Promise<boolean> {
    this.#sums[1]! += step;
    return super.afterOptimizerStep(run, step);
  }

  stateTensors(): ReadonlyMap<string, TensorData> {
    return new Map([["mean", fixed([...this.#sums])]]);
  }
}

const build = (coordinator: SyncCoordinator, options: Partial<LocalTrainerOptions> = {}) =>
  localTrainer({ model: smallTransformer(), coordinator, ...options });

describe("a coordinator", () => {
  it("starts, sees every step, gives its state to each checkpoint, stops", async () => {
    const diary = new Diary();
    const { trainer, close } = await build(diary, { folder: temporaryFolder(), everySteps: 2, maxSteps: 3 });
    await trainer.fit();
    expect(diary.calls).toEqual(["start 0", "step 1", "step 2", "state", "step 3", "state", "stop"]);
    await close();
  });

  it("is left alone when nothing is to be done", async () => {
    const folder = temporaryFolder();
    const first = await build(new Diary(), { folder, maxSteps: 2 });
    await first.trainer.fit();
    const diary = new PreparedDiary();
    const second = await build(diary, { folder, maxSteps: 2 });
    await second.trainer.resume(await loadCheckpoint(folder));
    await second.trainer.fit();
    expect(diary.calls).toEqual([]);
    await first.close();
    await second.close();
  });

  it("is started and stopped once more when an earlier process left something to hand over", async () => {
    const folder = temporaryFolder();
    const first = await build(new Diary(), { folder, maxSteps: 2 });
    await first.trainer.fit();
    const diary = new (class extends PreparedDiary {
      hasUnsent(): boolean {
        this.calls.push("asked");
        return true;
      }
    })();
    const second = await build(diary, { folder, maxSteps: 2 });
    await second.trainer.resume(await loadCheckpoint(folder));
    expect(await second.trainer.fit()).toMatchObject({ steps: 2, stop: { kind: "target" } });
    const prepared = 'prepare {"seen":2}';
    expect(diary.calls).toEqual([prepared, "asked", prepared, "start 2", "stop"]);
    await first.close();
    await second.close();
  });

  it.each([
    { Kind: Diary, expected: ["start 2", 'load {"seen":2}', "step 3", "state", "stop"] },
    { Kind: PreparedDiary, expected: ['prepare {"seen":2}', "start 2", "step 3", "state", "stop"] },
  ])("gets its state back ($Kind.name)", async ({ Kind, expected }) => {
    const folder = temporaryFolder();
    const first = await build(new Kind(), { folder, maxSteps: 2 });
    await first.trainer.fit();
    const diary = new Kind();
    const second = await build(diary, { folder, maxSteps: 3 });
    await second.trainer.resume(await loadCheckpoint(folder));
    await second.trainer.fit();
    expect(diary.calls).toEqual(expected);
    expect((await loadCheckpoint(folder)).content.trainer.coordinator).toEqual({ seen: 3 });
    await first.close();
    await second.close();
  });

  it.each(["prepareState", "loadStateDict"] as const)("gets its tensors back (%s)", async (method) => {
    const folder = temporaryFolder();
    const first = await build(new Surveyor(), { folder, everySteps: 1, maxSteps: 2 });
    await first.trainer.fit();
    await first.close();
    const saved = await loadCheckpoint(folder);
    expect(saved.info.manifest.files).toHaveProperty("coordinator.safetensors");
    expect(saved.content.coordinator).toEqual(new Map([["mean", fixed([1, 3])]]));

    // A run without a coordinator hands on what it found.
    const between = await localTrainer({ model: smallTransformer(), folder, maxSteps: 3 });
    await between.trainer.resume(saved);
    await between.trainer.fit();
    await between.close();

    const surveyor = new Surveyor();
    const found: unknown[] = [];
    Object.assign(surveyor, { [method]: (...saved: unknown[]) => void found.push(...saved) });
    const last = await build(surveyor, { folder, maxSteps: 4 });
    await last.trainer.resume(await loadCheckpoint(folder));
    await last.trainer.fit();
    await last.close();
    expect(found).toEqual([{ seen: 2 }, new Map([["mean", fixed([1, 3])]])]);
  });

  it("has its saved state kept by a run without one", async () => {
    const folder = temporaryFolder();
    const first = await build(new Diary(), { folder, maxSteps: 2 });
    await first.trainer.fit();
    const second = await localTrainer({ model: smallTransformer(), folder, maxSteps: 3 });
    await second.trainer.resume(await loadCheckpoint(folder));
    await second.trainer.fit();
    expect((await loadCheckpoint(folder)).content.trainer).toMatchObject({
      step: 3,
      coordinator: { seen: 2 },
    });
    await first.close();
    await second.close();
  });

  it("is not told of skipped updates", async () => {
    const diary = new Diary();
    const { trainer, engine, close } = await build(diary, {
      nonFinite: { policy: "skip", maxConsecutiveSkips: 1 },
      maxSteps: 3,
    });
    const broken = (await engine.readParameters()).get("transformer.ln_f.weight")!;
    broken.data.fill(Number.NaN);
    await engine.writeParameters(new Map([["transformer.ln_f.weight", broken]]));
    await expect(trainer.fit()).rejects.toMatchObject({ code: "train.non_finite" });
    expect(diary.calls).toEqual(["start 0", "stop"]);
    await close();
  });
});

describe("stop", () => {
  const failing = (at: string) =>
    new Diary((call) => {
      if (call === at) throw new Error(`no ${call}`);
    });

  it.each([
    { at: "step 2", calls: ["start 0", "step 1", "step 2", "stop"] },
    // Never started, never stopped.
    { at: "start", calls: ["start 0"] },
  ])("is called once after a failure in $at iff it was started", async ({ at, calls }) => {
    const diary = failing(at);
    const { trainer, close } = await build(diary);
    await expect(trainer.fit()).rejects.toThrow(`no ${at}`);
    expect(diary.calls).toEqual(calls);
    await close();
  });

  it("is called when saved state cannot be loaded after the start", async () => {
    const folder = temporaryFolder();
    const first = await build(new Diary(), { folder, maxSteps: 2 });
    await first.trainer.fit();
    const diary = failing("load");
    const second = await build(diary, { folder, maxSteps: 3 });
    await second.trainer.resume(await loadCheckpoint(folder));
    await expect(second.trainer.fit()).rejects.toThrow("no load");
    expect(diary.calls).toEqual(["start 2", 'load {"seen":2}', "stop"]);
    await first.close();
    await second.close();
  });

  it("comes after the last checkpoint of an aborted run, and its own failure ends the run", async () => {
    const control = new AbortController();
    const diary = new Diary((call) => {
      if (call === "step 1") control.abort("SIGINT");
      if (call === "stop") throw new Error("no stop");
    });
    const { trainer, close } = await build(diary, { folder: temporaryFolder(), signal: control.signal });
    await expect(trainer.fit()).rejects.toThrow("no stop");
    expect(diary.calls).toEqual(["start 0", "step 1", "state", "stop"]);
    await close();
  });

  it("does not hide the error that ended the run", async () => {
    const diary = new Diary((call) => {
      if (call === "step 1" || call === "stop") throw new Error(`no ${call}`);
    });
    const { trainer, close } = await build(diary);
    await expect(trainer.fit()).rejects.toThrow("no step 1");
    expect(diary.calls).toEqual(["start 0", "step 1", "stop"]);
    await close();
  });
});

describe("a synchronisation", () => {
  it("may read and replace parameters", async () => {
    const name = "transformer.ln_f.weight";
    const seen: number[] = [];
    const diary = new Diary(async (call, run) => {
      if (!call.startsWith("step")) return false;
      const value = (await run!.readParameters()).get(name)!;
      seen.push(value.data[0]!);
      value.data.fill(3);
      await run!.writeParameters(new Map([[name, value]]));
      return true;
    });
    const { trainer, engine, close } = await build(diary, { lr: 0.01, maxSteps: 2 });
    await trainer.fit();
    expect(seen).toEqual([expect.closeTo(1, 1), expect.closeTo(3, 1)]);
    expect((await engine.readParameters()).get(name)!.data).toEqual(new Float32Array(12).fill(3));
    await close();
  });

  it.each([{ resetInnerOptimizer: true }, { resetInnerOptimizer: false }])(
    "clears moments and the count of bias correction: $resetInnerOptimizer",
    async ({ resetInnerOptimizer }) => {
      const folder = temporaryFolder();
      const syncs = new Diary((call) => call === "step 2");
      const model = smallTransformer();
      const run = await build(syncs, { model, resetInnerOptimizer, maxSteps: 3, folder, everySteps: 1 });
      await run.trainer.fit();
      const at = (step: number) => loadCheckpoint(`${folder}/step-${String(step).padStart(12, "0")}`);
      const [second, third] = [(await at(2)).content, (await at(3)).content];
      const isZero = [...second.optimizer.values()].every(({ data }) => data.every((x) => x === 0));
      expect(isZero).toBe(resetInnerOptimizer);
      expect([second, third].map((c) => c.trainer.counters.optimizerUpdates)).toEqual(
        resetInnerOptimizer ? [0, 1] : [2, 3],
      );
      // A first update of AdamW moves by lr · sign(gradient), whatever the gradient's size: only then.
      const name = "transformer.ln_f.weight";
      const moved = Array.from(third.model.get(name)!.data, (x, i) =>
        Math.abs(x - second.model.get(name)!.data[i]!),
      );
      const isFirstUpdate = distance(moved, new Array(12).fill(0.01)) < 1e-3;
      expect(isFirstUpdate).toBe(resetInnerOptimizer);
      await run.close();
    },
  );
});
