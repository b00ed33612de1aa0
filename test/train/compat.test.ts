// Each compatibility switch that training obeys changes what it says, and nothing else does.

import { buildRuntime, type RuntimeOptions, trainFromConfig } from "speedtronic";
import { compatSwitches } from "speedtronic/config";
import { constant, evaluate, type TensorData } from "speedtronic/tensor";
import { traceTraining } from "speedtronic/train";
import { describe, expect, it } from "vitest";
import { resolveConfig } from "../../src/config/index.js";
import { mergeSettings } from "../../src/train/merge-settings.js";
import { bookFile, copyOf, FormulaDataset, recordEvents, temporaryFolder, tinyConfig } from "./helpers.js";

type Changes = Parameters<typeof tinyConfig>[1];

const build = (changes: Changes, options: RuntimeOptions = {}) =>
  buildRuntime(tinyConfig(temporaryFolder(), { ...changes, checkpoint: { enabled: false } }), options);

async function stepsOf(changes: Changes, options: RuntimeOptions = {}) {
  const events = recordEvents();
  const config = tinyConfig(temporaryFolder(), { ...changes, checkpoint: { enabled: false } });
  await trainFromConfig(config, { ...options, hooks: [events.hook] });
  return events.of("train_step");
}

/** Rows of the first `count` batches' input ids. */
async function firstInputs(changes: Changes, count: number): Promise<number[][]> {
  const runtime = await build(changes);
  const rows: number[][] = [];
  for (let i = 0; i < count; i++) {
    const { batch } = await runtime.data.train.next();
    rows.push(Array.from(batch.input_ids!.data as Int32Array));
  }
  await runtime.close();
  return rows;
}

describe("compat", () => {
  it("has a test here for each of its switches", () => {
    expect(compatSwitches.map(({ key }) => key).sort()).toEqual([
      "cautious_decay",
      "decay_all_tensors",
      "double_dropout",
      "lr_metric_next",
      "microbatch_mean",
      "outer_round",
      "schedule_endpoints",
      "synthetic_seeds",
      "text_stride",
    ]);
  });

  it("outer_round: files count the same, at once, with full momentum", () => {
    const settings = (outer_round: boolean) => mergeSettings(resolveConfig({ compat: { outer_round } }));
    expect(settings(true)).toEqual({
      outerLr: 0.7,
      outerMomentum: 0.9,
      momentumWarmupRounds: 0,
      merge: "python",
      stalenessLimit: Number.POSITIVE_INFINITY,
      stalenessDiscount: 1,
      clipFactor: null,
      quorum: 1,
      graceMs: 0,
      keepVersions: 1000,
    });
    expect(settings(false)).toMatchObject({
      momentumWarmupRounds: 50,
      merge: "tokens",
      stalenessLimit: 20,
      stalenessDiscount: 0.95,
      clipFactor: 3,
      quorum: null,
      graceMs: 600_000,
    });
  });

  it("cautious_decay: with optimizer.cautious, rows of absent tokens do not decay", async () => {
    const [lr, weight_decay] = [0.1, 0.5];
    const shares: number[][] = [];
    for (const cautious_decay of [false, true]) {
      const runtime = await build(
        {
          run: { max_steps: 1 },
          model: { tie_weights: false },
          optimizer: { lr, weight_decay, cautious: true },
          compat: { cautious_decay },
        },
        { dataset: new FormulaDataset(4, [8], 13) },
      );
      await runtime.refreshModel();
      const tableOf = () => copyOf(runtime.model.stateDict()).get("transformer.wte.weight")!;
      const before = tableOf();
      await runtime.trainer.fit();
      // The ids of the samples are below 13.
      const first = 13 * before.shape[1]!;
      const after = tableOf().data;
      shares.push(Array.from(before.data.slice(first), (x, i) => after[first + i]! / x));
      await runtime.close();
    }
    const [decayed, kept] = shares as [number[], number[]];
    expect(decayed).toHaveLength(3 * 8);
    for (const share of decayed) expect(share).toBeCloseTo(1 - lr * weight_decay, 6);
    expect(new Set(kept)).toEqual(new Set([1]));
  });

  it("decay_all_tensors: norms decay too, matrices as before", async () => {
    const [lr, weight_decay] = [0.1, 0.5];
    const trained: Map<string, TensorData>[] = [];
    let start = new Map<string, TensorData>();
    for (const decay_all_tensors of [false, true]) {
      const runtime = await build({
        run: { max_steps: 1 },
        optimizer: { lr, weight_decay },
        compat: { decay_all_tensors },
      });
      await runtime.refreshModel();
      start = copyOf(runtime.model.stateDict());
      await runtime.trainer.fit();
      trained.push(copyOf(runtime.model.stateDict()));
      await runtime.close();
    }
    const [without, withDecay] = trained as [Map<string, TensorData>, Map<string, TensorData>];
    let vectors = 0;
    for (const [name, { data, shape }] of start) {
      const [a, b] = [without.get(name)!.data, withDecay.get(name)!.data];
      if (shape.length > 1) expect([name, b]).toEqual([name, a]);
      else {
        vectors += 1;
        for (let i = 0; i < data.length; i++)
          expect(a[i]! - b[i]!).toBeCloseTo(lr * weight_decay * data[i]!, 6);
      }
    }
    expect(vectors).toBe(3);
  });

  it("double_dropout: one more mask in each layer's attention branch", async () => {
    const masks: number[] = [];
    for (const double_dropout of [false, true]) {
      const runtime = await build({ model: { n_layer: 3, dropout: 0.5 }, compat: { double_dropout } });
      const { batch } = await runtime.data.train.next();
      const { nodes } = traceTraining(runtime.model, batch);
      masks.push(nodes.filter(({ op }) => op === "dropoutMask").length);
      await runtime.close();
    }
    // Embedding; per layer attention weights, attention branch, MLP branch.
    expect([masks[0]! - 1, masks[1]! - masks[0]!].map((count) => count / 3)).toEqual([3, 1]);
  });

  it("schedule_endpoints: full rate twice, floor after the run", async () => {
    const scheduler = { warmup_steps: 1, min_lr_ratio: 0.1 };
    const rates = async (schedule_endpoints: boolean) =>
      (await stepsOf({ scheduler, optimizer: { lr: 1 }, compat: { schedule_endpoints } })).map(({ lr }) =>
        Number(lr.toFixed(9)),
      );
    expect(await rates(false)).toEqual([1, 0.775, 0.325, 0.1]);
    expect(await rates(true)).toEqual([1, 1, 0.775, 0.325]);
  });

  it("lr_metric_next: the rate of the next update, as Python reports it", async () => {
    const scheduler = { warmup_steps: 1, max_steps: 4, min_lr_ratio: 0.1 };
    const changes = { scheduler, optimizer: { lr: 3e-4 } };
    const steps = await stepsOf({ ...changes, compat: { lr_metric_next: true, schedule_endpoints: true } });
    expect(steps.map(({ lr }) => Number(lr.toPrecision(6)))).toEqual([3e-4, 2.325e-4, 9.75e-5, 3e-5]);
    const plain = await stepsOf({ ...changes, compat: { schedule_endpoints: true } });
    expect(plain.map(({ loss }) => loss)).toEqual(steps.map(({ loss }) => loss));
    expect(plain.map(({ lr }) => Number(lr.toPrecision(6)))).toEqual([3e-4, 3e-4, 2.325e-4, 9.75e-5]);
  });

  it("text_stride: samples share no token", async () => {
    const changes = (text_stride: boolean) => ({
      model: { vocab_size: 256 },
      data: { text_path: bookFile },
      compat: { text_stride },
    });
    const [shared, disjoint] = [await firstInputs(changes(false), 3), await firstInputs(changes(true), 3)];
    expect(disjoint[0]).toEqual(shared[0]);
    // Token 8 begins the second sample; with the switch it is only the last label of the first.
    expect(shared[1]!.slice(1)).toEqual(disjoint[1]!.slice(0, -1));
    expect(shared[2]!.slice(2)).toEqual(disjoint[2]!.slice(0, -2));
  });

  it("synthetic_seeds: sample i + 1 of one seed is sample i of the next", async () => {
    const ids = (seed: number, synthetic_seeds: boolean) =>
      firstInputs({ data: { seed }, compat: { synthetic_seeds } }, 3);
    const [one, next] = [await ids(7, true), await ids(8, true)];
    expect(one.slice(1)).toEqual(next.slice(0, 2));
    const [mixed, mixedNext] = [await ids(7, false), await ids(8, false)];
    for (const row of mixed) for (const other of [...mixedNext, ...one]) expect(row).not.toEqual(other);
  });

  it("microbatch_mean: each microbatch weighs the same", async () => {
    const dataset = new FormulaDataset(4, [2, 8], 16);
    const runtime = await build({}, { dataset });
    await runtime.refreshModel();
    const sums: { loss: number; count: number }[] = [];
    for (let i = 0; i < 2; i++) {
      const { batch } = await runtime.data.train.next();
      const inputs = Object.fromEntries(Object.entries(batch).map(([name, data]) => [name, constant(data)]));
      const { lossSum, tokenCount } = runtime.model.forward(inputs);
      const [loss, count] = evaluate([lossSum!, tokenCount!]).map(({ data }) => data[0]!) as [number, number];
      sums.push({ loss, count });
    }
    await runtime.close();
    expect(sums.map(({ count }) => count)).toEqual([2, 8]);
    const [few, many] = sums as [(typeof sums)[0], (typeof sums)[0]];
    const first = async (microbatch_mean: boolean) =>
      (await stepsOf({ run: { max_steps: 1 }, compat: { microbatch_mean } }, { dataset }))[0]!;
    const [byTargets, byMicrobatch] = [await first(false), await first(true)];
    expect(byTargets.loss).toBeCloseTo((few.loss + many.loss) / 10, 5);
    expect(byMicrobatch.loss).toBeCloseTo((few.loss / 2 + many.loss / 8) / 2, 5);
    expect(Math.abs(byTargets.loss - byMicrobatch.loss)).toBeGreaterThan(1e-4);
    expect(byTargets.grad_norm).not.toBeCloseTo(byMicrobatch.grad_norm!, 4);
  });
});
