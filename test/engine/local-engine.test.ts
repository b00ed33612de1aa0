// One engine, both backends: the same losses, gradients and updates, however a batch is cut into microbatches.

import { ModelError } from "speedtronic";
import { Linear, type ModelInputs, type ModelOutput, Module, type TrainableModel } from "speedtronic/nn";
import { mean, mul, sub, type TensorData } from "speedtronic/tensor";
import { type TrainEngine, traceEvaluation, traceTraining, type UpdateRequest } from "speedtronic/train";
import { describe, expect, it } from "vitest";
import { createLocalEngine } from "../../src/train/engine/local-engine.node.js";
import {
  differences,
  distance,
  engineFor,
  engineOptions,
  type Feeds,
  parametersOf,
  rng,
  smallTransformer,
  stackRows,
  tokens,
} from "./fixtures.js";

const backends = ["reference", "onnx"] as const;
const request = (microbatches: UpdateRequest["microbatches"], changes: Partial<UpdateRequest> = {}) => ({
  microbatches,
  lr: 0.01,
  count: 1,
  gradClip: null,
  averaging: "targets" as const,
  ...changes,
});

/** Makes `engine` update with one microbatch per entry of `batches`. */
async function update(
  engine: TrainEngine,
  model: TrainableModel,
  batches: readonly Feeds[],
  changes: Partial<UpdateRequest> = {},
) {
  const microbatches = [];
  for (const feeds of batches) {
    const { rng: _, ...fields } = feeds;
    const program = await engine.addProgram(traceTraining(model, fields));
    const targets = (feeds.labels?.data as Int32Array | undefined)?.filter((id) => id !== -100).length;
    microbatches.push({ program, feeds, weight: targets ?? 1 });
  }
  return engine.update(request(microbatches, changes));
}

describe("reference and onnx", () => {
  it.each([
    { title: "grouped heads", model: {}, batch: tokens(2, 8) },
    { title: "an untied head, odd width", model: { tieWeights: false, nKvHead: 2 }, batch: tokens(3, 7) },
    { title: "ignored labels", model: {}, batch: tokens(2, 8, { targets: 3 }) },
    {
      title: "a padding mask",
      model: {},
      batch: {
        ...tokens(2, 4, { targets: 2 }),
        attention_mask: { dtype: "bool", shape: [2, 4], data: Uint8Array.of(1, 1, 0, 0, 1, 1, 0, 0) },
      } satisfies Feeds,
    },
    { title: "dropout", model: { dropout: 0.3 }, batch: { ...tokens(2, 8), ...rng(5, 9) } },
    { title: "one token", model: {}, batch: tokens(1, 1) },
  ])("give the same loss, count and gradients: $title", async ({ model: options, batch }) => {
    const model = smallTransformer(options);
    const results: Record<string, TensorData>[] = [];
    for (const backend of backends) {
      const engine = await engineFor(model, backend);
      const { rng: _, ...fields } = batch as Feeds;
      const program = await engine.addProgram(traceTraining(model, fields));
      results.push(await engine.evaluate(program, batch as Feeds));
      await engine.close();
    }
    const [reference, onnx] = results as [Record<string, TensorData>, Record<string, TensorData>];
    expect(Object.keys(reference).sort()).toEqual(
      ["count", "loss", ...[...model.namedParameters().keys()].map((name) => `grad.${name}`)].sort(),
    );
    expect(differences(onnx, reference, 2e-5)).toEqual({});
  });

  it("give the same parameters and moments after some updates", async () => {
    const model = smallTransformer();
    const states: Map<string, TensorData>[] = [];
    const losses: number[][] = [];
    for (const backend of backends) {
      const engine = await engineFor(model, backend);
      const program = await engine.addProgram(traceTraining(model, tokens(2, 8)));
      const own: number[] = [];
      for (let count = 1; count <= 5; count++) {
        const feeds = tokens(2, 8, { salt: count });
        own.push(
          (await engine.update(request([{ program, feeds, weight: 16 }], { count, gradClip: 0.5 }))).loss,
        );
      }
      losses.push(own);
      states.push(new Map([...(await engine.readParameters()), ...(await engine.readOptimizer())]));
      await engine.close();
    }
    expect(distance(losses[1]!, losses[0]!)).toBeLessThan(1e-6);
    expect(differences(states[1]!, states[0]!, 1e-4)).toEqual({});
    expect(differences(states[1]!, parametersOf(model), 1e-9)).not.toEqual({});
  });
});

describe("accumulation", () => {
  const few = tokens(1, 8, { salt: 1, targets: 2 });
  const many = tokens(2, 8, { salt: 2, targets: 7 });

  it.each(backends)("over targets equals one big batch (%s)", async (backend) => {
    const model = smallTransformer();
    const [cut, whole] = [await engineFor(model, backend), await engineFor(model, backend)];
    const inParts = await update(cut, model, [few, many, few], { gradClip: 0.7 });
    const atOnce = await update(whole, model, [stackRows(stackRows(few, many), few)], { gradClip: 0.7 });
    expect(inParts.targets).toBe(2 + 14 + 2);
    expect(atOnce.targets).toBe(inParts.targets);
    expect(inParts.loss).toBeCloseTo(atOnce.loss, 6);
    expect(inParts.gradNorm / atOnce.gradNorm).toBeCloseTo(1, 5);
    expect(differences(await cut.readOptimizer(), await whole.readOptimizer(), 1e-5)).toEqual({});
    await Promise.all([cut.close(), whole.close()]);
  });

  it.each(backends)("over microbatches is the mean of their means (%s)", async (backend) => {
    const model = smallTransformer();
    const means: { loss: number; gradients: Map<string, Float64Array> }[] = [];
    const reader = await engineFor(model, "reference");
    for (const batch of [few, many]) {
      const results = await reader.evaluate(await reader.addProgram(traceTraining(model, batch)), batch);
      const count = results.count!.data[0]!;
      const gradients = Object.entries(results).filter(([name]) => name.startsWith("grad."));
      means.push({
        loss: results.loss!.data[0]! / count,
        gradients: new Map(
          gradients.map(([name, { data }]) => [name, Float64Array.from(data, (x) => x / count)]),
        ),
      });
    }
    const [first, second] = means as [(typeof means)[0], (typeof means)[0]];
    let squares = 0;
    const expected = new Map<string, TensorData>();
    for (const [name, a] of first.gradients) {
      const gradient = a.map((x, i) => (x + second.gradients.get(name)![i]!) / 2);
      squares += gradient.reduce((sum, x) => sum + x * x, 0);
      // One update from zero moments leaves (1 − β1) · gradient.
      const data = Float32Array.from(gradient, (x) => 0.1 * x);
      expected.set(`${name.slice("grad.".length)}.exp_avg`, { dtype: "float32", shape: [], data });
    }
    const engine = await engineFor(model, backend);
    const result = await update(engine, model, [few, many], { averaging: "microbatches" });
    expect(result.loss).toBeCloseTo((first.loss + second.loss) / 2, 6);
    expect(result.gradNorm / Math.sqrt(squares)).toBeCloseTo(1, 5);
    const moments = new Map([...(await engine.readOptimizer())].filter(([name]) => name.endsWith("exp_avg")));
    expect(differences(moments, expected, 2e-5)).toEqual({});
    // The two ways to average differ for these batches, so the test can tell them apart.
    const other = await engineFor(model, backend);
    const byTargets = await update(other, model, [few, many]);
    expect(Math.abs(byTargets.loss - result.loss)).toBeGreaterThan(1e-4);
    await Promise.all([engine.close(), other.close(), reader.close()]);
  });

  it("weighs models that only give a mean by the targets of each microbatch", async () => {
    const rows = (salt: number, count: number): Feeds => ({
      x: {
        dtype: "float32",
        shape: [count, 2],
        data: Float32Array.from({ length: 2 * count }, (_, i) => Math.sin(i + salt)),
      },
    });
    const model = new MeanSquare();
    const [cut, whole] = [await engineFor(model), await engineFor(model)];
    const all = {
      x: {
        dtype: "float32" as const,
        shape: [4, 2],
        data: Float32Array.of(...rows(0, 3).x!.data, ...rows(9, 1).x!.data),
      },
    };
    const microbatches = [];
    for (const [feeds, weight] of [
      [rows(0, 3), 3],
      [rows(9, 1), 1],
    ] as const)
      microbatches.push({ program: await cut.addProgram(traceTraining(model, feeds)), feeds, weight });
    const inParts = await cut.update(request(microbatches));
    const atOnce = await whole.update(
      request([{ program: await whole.addProgram(traceTraining(model, all)), feeds: all, weight: 4 }]),
    );
    expect(inParts.loss).toBeCloseTo(atOnce.loss, 6);
    expect(inParts.gradNorm).toBeCloseTo(atOnce.gradNorm, 6);
    expect(differences(await cut.readParameters(), await whole.readParameters(), 1e-6)).toEqual({});
    await Promise.all([cut.close(), whole.close()]);
  });
});

/** Mean of (Wx + b − 1)² over rows: a loss without a sum or a count. */
class MeanSquare extends Module implements TrainableModel {
  readonly layer = new Linear(2, 1);

  constructor() {
    super();
    this.layer.weight.data.set([0.5, -0.25]);
    this.layer.bias!.data.set([0.125]);
  }

  forward({ x }: ModelInputs): ModelOutput {
    const error = sub(this.layer.forward(x!), 1);
    return { loss: mean(mul(error, error)), metrics: { mean_error: mean(error) } };
  }
}

describe("an update", () => {
  it.each([
    { gradClip: 1e-3, factor: (norm: number) => 1e-3 / (norm + 1e-6) },
    { gradClip: 1e6, factor: () => 1 },
    { gradClip: null, factor: () => 1 },
  ])("clips the norm over exactly these gradients to $gradClip", async ({ gradClip, factor }) => {
    const model = smallTransformer();
    model.transformer.h.at(0)!.attn.q_proj.weight.trainable = false;
    const engine = await engineFor(model);
    const batch = tokens(2, 8);
    const program = await engine.addProgram(traceTraining(model, batch));
    const results = await engine.evaluate(program, batch);
    const gradients = Object.entries(results).filter(([name]) => name.startsWith("grad."));
    expect(gradients.map(([name]) => name)).not.toContain("grad.transformer.h.0.attn.q_proj.weight");
    const norm = Math.sqrt(
      gradients.reduce(
        (sum, [, { data }]) => sum + Array.from(data).reduce((s, x) => s + (x / 16) ** 2, 0),
        0,
      ),
    );
    // Two updates: what is left of the first one's gradients must not count in the second.
    for (const count of [1, 2]) {
      const { gradNorm } = await engine.update(
        request([{ program, feeds: batch, weight: 16 }], { gradClip, count, lr: 1e-30 }),
      );
      expect(gradNorm / norm).toBeCloseTo(1, 5);
    }
    const expected = new Map<string, TensorData>();
    for (const [name, { data, ...rest }] of gradients)
      expected.set(`${name.slice("grad.".length)}.exp_avg`, {
        ...rest,
        data: Float32Array.from(data, (x) => (0.1 + 0.9 * 0.1) * (x / 16) * factor(norm)),
      });
    const moments = new Map([...(await engine.readOptimizer())].filter(([name]) => name.endsWith("exp_avg")));
    expect(differences(moments, expected, 1e-4)).toEqual({});
    await engine.close();
  });

  it("does not move frozen parameters, and holds no state for them", async () => {
    const model = smallTransformer();
    const frozen = [
      "transformer.wte.weight",
      "transformer.h.1.ln1.weight",
      "transformer.h.0.mlp.up_proj.weight",
    ];
    for (const name of frozen) model.namedParameters().get(name)!.trainable = false;
    const engine = await engineFor(model);
    await update(engine, model, [tokens(2, 8)]);
    await update(engine, model, [tokens(2, 8)], { count: 2 });
    const [before, after] = [parametersOf(model), await engine.readParameters()];
    const unmoved = [...before.keys()].filter(
      (name) => distance(after.get(name)!.data, before.get(name)!.data) === 0,
    );
    expect(unmoved.sort()).toEqual([...frozen].sort());
    const trained = [...before.keys()].filter((name) => !frozen.includes(name));
    expect([...(await engine.readOptimizer()).keys()].sort()).toEqual(
      trained.flatMap((name) => [`${name}.exp_avg`, `${name}.exp_avg_sq`]).sort(),
    );
    await engine.close();
  });

  it.each(backends)("with a number that is not finite changes nothing (%s)", async (backend) => {
    const model = smallTransformer();
    const engine = await engineFor(model, backend);
    await update(engine, model, [tokens(2, 8)]);
    const broken = await engine.readParameters();
    const weight = broken.get("transformer.ln_f.weight")!;
    weight.data[3] = Number.NaN;
    await engine.writeParameters(new Map([["transformer.ln_f.weight", weight]]));
    const before = new Map([...(await engine.readParameters()), ...(await engine.readOptimizer())]);
    const result = await update(engine, model, [tokens(2, 8)], { count: 2 });
    expect({ ...result, times: 0 }).toMatchObject({ applied: false, loss: Number.NaN, gradNorm: Number.NaN });
    const after = new Map([...(await engine.readParameters()), ...(await engine.readOptimizer())]);
    for (const [name, { data }] of before) expect([name, after.get(name)!.data]).toEqual([name, data]);
    await engine.close();
  });

  it("reports further scalars as their mean over microbatches", async () => {
    const model = new MeanSquare();
    const engine = await engineFor(model);
    const feeds = (value: number): Feeds => ({
      x: { dtype: "float32", shape: [1, 2], data: Float32Array.of(value, 0) },
    });
    const program = await engine.addProgram(traceTraining(model, feeds(0)));
    const microbatches = [feeds(0), feeds(4)].map((f) => ({ program, feeds: f, weight: 1 }));
    const { metrics } = await engine.update(request(microbatches));
    // 0.125 − 1 and 2 + 0.125 − 1.
    expect(metrics).toEqual({ mean_error: (-0.875 + 1.125) / 2 });
    await engine.close();
  });
});

describe("state", () => {
  it("is read as copies and written as a whole", async () => {
    const model = smallTransformer();
    const [one, other] = [await engineFor(model), await engineFor(smallTransformer({}, 2))];
    await update(one, model, [tokens(2, 8)]);
    const [parameters, moments] = [await one.readParameters(), await one.readOptimizer()];
    await other.writeParameters(parameters);
    await other.writeOptimizer(moments);
    for (const engine of [one, other]) await update(engine, model, [tokens(2, 8, { salt: 4 })], { count: 2 });
    expect(await other.readParameters()).toEqual(await one.readParameters());
    expect(await other.readOptimizer()).toEqual(await one.readOptimizer());
    expect(await one.readParameters()).not.toEqual(parameters);
    await one.writeOptimizer(new Map());
    for (const [, { data }] of await one.readOptimizer()) expect(data.every((x) => x === 0)).toBe(true);
    await Promise.all([one.close(), other.close()]);
  });

  it("refuses unknown names and wrong shapes, and changes nothing then", async () => {
    const model = smallTransformer();
    const engine = await engineFor(model);
    const name = "transformer.ln_f.weight";
    const good: TensorData = { dtype: "float32", shape: [12], data: new Float32Array(12).fill(7) };
    const cases = [
      () =>
        engine.writeParameters(
          new Map([
            [name, good],
            ["nothing.weight", good],
          ]),
        ),
      () => engine.writeParameters(new Map([[name, { ...good, shape: [3, 4] }]])),
      () =>
        engine.writeParameters(
          new Map<string, TensorData>([[name, { ...good, dtype: "int32", data: new Int32Array(12) }]]),
        ),
      () =>
        engine.writeOptimizer(
          new Map([
            [`${name}.exp_avg`, good],
            [`${name}.momentum`, good],
          ]),
        ),
    ];
    const codes: unknown[] = [];
    for (const attempt of cases) {
      const error = await attempt().catch((e: unknown) => e);
      expect(error).toBeInstanceOf(ModelError);
      codes.push((error as ModelError).code);
    }
    expect(codes).toEqual([
      "engine.unknown_tensor",
      "engine.wrong_tensor",
      "engine.wrong_tensor",
      "engine.unknown_tensor",
    ]);
    expect(await engine.readParameters()).toEqual(parametersOf(model));
    for (const [, { data }] of await engine.readOptimizer()) expect(data.every((x) => x === 0)).toBe(true);
    await engine.close();
  });

  it("can be had without an optimiser, for evaluation alone", async () => {
    const model = smallTransformer();
    const { optimizer: _, ...options } = engineOptions(model, "onnx");
    const engine = await createLocalEngine(options);
    await engine.writeParameters(parametersOf(model));
    const program = await engine.addProgram(traceEvaluation(model, tokens(1, 8)));
    const { loss, count } = await engine.evaluate(program, tokens(1, 8));
    expect([loss!.data[0]! / Math.log(13) / 8, count!.data[0]]).toEqual([expect.closeTo(1, 1), 8]);
    expect([...(await engine.readOptimizer()).keys()]).toEqual([]);
    await expect(engine.update(request([{ program, feeds: tokens(1, 8), weight: 8 }]))).rejects.toMatchObject(
      { code: "internal.invariant" },
    );
    await engine.close();
  });
});
