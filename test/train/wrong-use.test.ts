// What a program can get wrong with models, data and calls of its own: each is refused by name, and no values of a
// model are lost.

import {
  buildModel,
  buildRuntime,
  ConfigError,
  DataError,
  ModelError,
  registerModel,
  trainFromConfig,
} from "speedtronic";
import type { Dataset, Sample } from "speedtronic/data";
import {
  initialize,
  Linear,
  type ModelInputs,
  type ModelOutput,
  Module,
  type TrainableModel,
} from "speedtronic/nn";
import {
  cast,
  constant,
  mean,
  mul,
  Parameter,
  reshape,
  stopGradient,
  sum,
  type Tensor,
} from "speedtronic/tensor";
import { traceTraining } from "speedtronic/train";
import { describe, expect, it } from "vitest";
import { engineFor, smallTransformer } from "../engine/fixtures.js";
import {
  copyOf,
  equalTensors,
  FormulaDataset,
  localTrainer,
  recordEvents,
  temporaryFolder,
  tinyConfig,
} from "./helpers.js";

/** Its forward is handed over. */
class Custom extends Module implements TrainableModel {
  readonly scale = new Parameter([1, 1], { data: Float32Array.of(0.5) });
  readonly layer = new Linear(1, 1);
  readonly spare = new Linear(1, 1);
  readonly temperature = new Parameter([], { data: Float32Array.of(0.25) });

  constructor(private readonly body: (model: Custom, x: Tensor) => unknown) {
    super();
  }

  forward({ input_ids }: ModelInputs): ModelOutput {
    return this.body(this, reshape(cast(input_ids!, "float32"), [-1, 1])) as ModelOutput;
  }
}

const types = {
  input_ids: { dtype: "int32", shape: [2, 8] },
  labels: { dtype: "int32", shape: [2, 8] },
} as const;
const squared = (x: Tensor) => mean(mul(x, x));
/** Depends on every parameter. */
const whole = (model: Custom, x: Tensor) =>
  mul(squared(model.spare.forward(model.layer.forward(mul(x, model.scale)))), model.temperature);

describe("what forward returns", () => {
  it.each<[string, (model: Custom, x: Tensor) => unknown, RegExp]>([
    ["nothing", () => undefined, /^Custom\.forward must return .* it returned undefined$/],
    [
      "a promise",
      async (model, x) => ({ loss: whole(model, x) }),
      /it returned a Promise: it must not be async/,
    ],
    ["a tensor that is no loss", (_, x) => mul(x, x), /the result must be a scalar, got \[/],
    ["a number as loss", () => ({ loss: 3 }), /^Custom: loss must be a tensor, got number 3$/],
    [
      "a number as metric",
      (m, x) => ({ loss: whole(m, x), metrics: { part: 3 } }),
      /"part" must be a tensor, got number 3/,
    ],
    ["no loss", () => ({}), /gave no loss for inputs input_ids, labels/],
    ...["loss", "count", "grad.scale", "lr", "step", "time"].map(
      (name): [string, (model: Custom, x: Tensor) => unknown, RegExp] => [
        `the metric ${name}`,
        (m, x) => ({ loss: whole(m, x), metrics: { [name]: sum(x) } }),
        new RegExp(`a metric cannot be named "${name}"`),
      ],
    ),
  ])("%s", (_, body, message) => {
    expect(() => traceTraining(new Custom(body), types)).toThrow(ModelError);
    expect(() => traceTraining(new Custom(body), types)).toThrow(message);
  });
});

describe("parameters that the loss does not depend on", () => {
  const partly = (model: Custom, x: Tensor) => ({ loss: squared(model.layer.forward(x)) });

  it("are refused by name, unless frozen", async () => {
    const model = new Custom(partly);
    expect(() => traceTraining(model, types)).toThrow(
      /^Custom: the loss does not depend on scale, temperature, spare\.weight, spare\.bias\. .*`trainable = false`/,
    );
    expect(() => traceTraining(model, types, { allowsUnreached: true })).not.toThrow();
    for (const parameter of [model.scale, model.temperature, ...model.spare.namedParameters().values()])
      parameter.trainable = false;
    initialize(model.spare, 1);
    initialize(model.layer, 1);
    const before = copyOf(model.stateDict());
    const run = await localTrainer({ model, maxSteps: 2 });
    await run.trainer.fit();
    await run.close();
    expect(equalTensors(model.stateDict(), before)).toEqual([
      "scale",
      "temperature",
      "spare.weight",
      "spare.bias",
    ]);
  });

  it.each<[string, (model: Custom, x: Tensor) => Tensor]>([
    ["detached", (model, x) => stopGradient(whole(model, x))],
    ["a constant", () => constant({ dtype: "float32", shape: [], data: Float32Array.of(1) })],
    ["rounded to integers", (model, x) => cast(cast(whole(model, x), "int32"), "float32")],
  ])("cannot be all of them: a loss that is %s", (_, loss) => {
    const model = new Custom((m, x) => ({ loss: loss(m, x) }));
    expect(() => traceTraining(model, types, { allowsUnreached: true })).toThrow(
      /the loss does not depend on any trainable parameter/,
    );
  });

  it("may appear with later batches of another shape", async () => {
    const model = new Custom((m, x) => (x.shape[0] === 6 ? partly(m, x) : { loss: whole(m, x) }));
    initialize(model.spare, 1);
    initialize(model.layer, 1);
    const run = await localTrainer({
      model,
      maxSteps: 3,
      dataset: new FormulaDataset(4, [4, 6]),
      batchSize: 1,
    });
    await expect(run.trainer.fit()).resolves.toMatchObject({ steps: 3 });
    await run.close();
  });
});

describe("numbers of an update", () => {
  it("leave the gradient of a scalar parameter out of the metrics", async () => {
    const events = recordEvents();
    const model = new Custom((m, x) => ({ loss: whole(m, x), metrics: { part: sum(m.scale) } }));
    const run = await localTrainer({ model, maxSteps: 1, events });
    await run.trainer.fit();
    await run.close();
    const keys = Object.keys(events.of("train_step")[0]!);
    expect(keys).toContain("part");
    expect(keys.filter((key) => key.startsWith("grad."))).toEqual([]);
  });

  it.each(["targets", "microbatches"] as const)(
    "divide by a fractional count, averaged by %s",
    async (averaging) => {
      const losses: number[] = [];
      for (const weight of [1, 0.25]) {
        const model = new Custom((m, x) => ({
          lossSum: mul(whole(m, x), weight),
          tokenCount: mul(constant1(), weight),
        }));
        const events = recordEvents();
        const run = await localTrainer({ model, maxSteps: 1, averaging, events });
        await run.trainer.fit();
        await run.close();
        losses.push(events.of("train_step")[0]!.loss, events.of("train_step")[0]!.grad_norm!);
      }
      expect(losses[2]).toBeCloseTo(losses[0]!, 5);
      expect(losses[3]).toBeCloseTo(losses[1]!, 5);
    },
  );
});

const constant1 = () => constant({ dtype: "float32", shape: [], data: Float32Array.of(1) });

describe("a model's values", () => {
  const failing = (): Dataset => {
    const data = new FormulaDataset(4);
    let reads = 0;
    return {
      length: 4,
      describe: () => data.describe(),
      get: (index) => {
        if (reads++ === 4) throw new Error("disk gone");
        return data.get(index);
      },
    };
  };
  const config = (changes = {}) => tinyConfig(temporaryFolder(), { data: { num_workers: 0, ...changes } });

  it("are back after a failed run, trained as far as it came", async () => {
    const model = smallTransformer({ vocabSize: 16 });
    const before = copyOf(model.stateDict());
    await expect(
      trainFromConfig(config({ prefetch_factor: 1 }), { model, dataset: failing() }),
    ).rejects.toThrow(/Sample \d of the dataset could not be read: disk gone/);
    expect(equalTensors(model.stateDict(), before)).toEqual([]);
  });

  it("are back when a runtime is closed without training, or cannot be built", async () => {
    const model = smallTransformer({ vocabSize: 16 });
    const before = copyOf(model.stateDict());
    const runtime = await buildRuntime(config(), { model, dataset: new FormulaDataset(4) });
    expect(() => model.stateDict()).toThrow(/refreshModel of the runtime/);
    await runtime.close();
    expect(model.stateDict()).toEqual(before);
    await expect(runtime.refreshModel()).resolves.toBeUndefined();
    await expect(buildRuntime(config(), { model, resume: true })).rejects.toThrow();
    expect(model.stateDict()).toEqual(before);
  });

  it("stay where they are when a second run asks for them", async () => {
    const model = smallTransformer({ vocabSize: 16 });
    const before = copyOf(model.stateDict());
    const first = await buildRuntime(config(), { model, dataset: new FormulaDataset(4) });
    await expect(buildRuntime(config(), { model })).rejects.toMatchObject({ code: "parameter.elsewhere" });
    await first.close();
    expect(model.stateDict()).toEqual(before);
  });
});

describe("calls out of order", () => {
  it("fit twice at once, and after close", async () => {
    const run = await localTrainer({ model: smallTransformer() });
    const first = run.trainer.fit();
    await expect(run.trainer.fit()).rejects.toMatchObject({
      name: "ConfigError",
      code: "train.already_training",
    });
    await expect(first).resolves.toMatchObject({ steps: 4 });
    await run.close();
    await expect(run.trainer.fit()).rejects.toMatchObject({ name: "ConfigError", code: "train.closed" });
  });

  it("close during fit ends it after an update, saved", async () => {
    const outputDir = temporaryFolder();
    const events = recordEvents((event) => {
      if (event === "train_step") void runtime.close();
    });
    const runtime = await buildRuntime(tinyConfig(outputDir, { run: { max_steps: 1000 } }), {
      hooks: [events.hook],
    });
    await expect(runtime.trainer.fit()).rejects.toMatchObject({ name: "ConfigError", code: "train.closed" });
    await runtime.close();
    expect(events.names().slice(-4)).toEqual(["train_start", "train_step:1", "checkpoint:1", "train_end"]);
    expect([...runtime.model.namedParameters().values()].every(({ hasData }) => hasData)).toBe(true);
    await expect(runtime.trainer.fit()).rejects.toThrow(ConfigError);
  });
});

describe("options", () => {
  const build = (options: object) => buildRuntime(tinyConfig(temporaryFolder()), options);

  it("with a slip of the hand are refused", async () => {
    await expect(build({ datset: 1 })).rejects.toThrow(
      /unknown option "datset" \(did you mean "dataset"\?\); options: resume/,
    );
    await expect(build({ backend: "onx" })).rejects.toThrow(
      /unknown backend "onx" \(did you mean "onnx"\?\)/,
    );
    await expect(build({ backend: "cuda" })).rejects.toMatchObject({
      name: "ConfigError",
      code: "train.unknown_backend",
    });
    await expect(build({ model: {} })).rejects.toMatchObject({
      name: "ModelError",
      code: "model.not_a_model",
    });
  });

  it("name the class of a model without parameters", async () => {
    class Empty extends Module {
      forward = () => ({});
    }
    await expect(build({ model: new Empty() })).rejects.toThrow(
      /^the model Empty has no trainable parameter$/,
    );
  });

  it("a factory must return a model", () => {
    registerModel("test_nothing", (() => undefined) as never);
    registerModel("test_later", (async () => smallTransformer()) as never);
    expect(() => buildModel({ name: "test_nothing" })).toThrow(
      /factory of model "test_nothing" must return .* got undefined/,
    );
    expect(() => buildModel({ name: "test_later" })).toThrow(/got a Promise: it must not be async/);
  });
});

describe("validation data of one's own", () => {
  const evaluations = async (changes: Parameters<typeof tinyConfig>[1], options: object) => {
    const events = recordEvents();
    await trainFromConfig(tinyConfig(temporaryFolder(), changes), { ...options, hooks: [events.hook] });
    return events.of("evaluation").map(({ step, tokens }) => [step, tokens]);
  };
  const evaluation = { every_steps: 2 };

  it("is a part of a dataset handed over", async () => {
    const options = { dataset: new FormulaDataset(10) };
    expect(await evaluations({ data: { validation_fraction: 0.2 }, evaluation }, options)).toEqual([
      [2, 16],
      [4, 16],
    ]);
  });

  it("is a dataset handed over, checked as all are", async () => {
    expect(await evaluations({ evaluation }, { validation: new FormulaDataset(3) })).toEqual([
      [2, 24],
      [4, 24],
    ]);
    const wrong: Dataset = { length: 1, get: () => undefined as unknown as Sample, describe: () => ({}) };
    await expect(evaluations({}, { validation: wrong })).rejects.toThrow(DataError);
    await expect(
      evaluations({ data: { validation_fraction: 0.5 } }, { validation: new FormulaDataset(3) }),
    ).rejects.toThrow(/validation_fraction is 0.5: samples for the validation loss are handed over as well/);
  });
});

describe("an engine that has failed", () => {
  it("does not hide the failure of the run", async () => {
    const model = smallTransformer();
    const engine = await engineFor(model);
    const broken = Object.assign(Object.create(engine), {
      update: () => Promise.reject(new Error("update failed")),
      addProgram: engine.addProgram.bind(engine),
      removeProgram: engine.removeProgram.bind(engine),
      readParameters: () => Promise.reject(new Error("no values")),
      close: engine.close.bind(engine),
    });
    const run = await localTrainer({ model, engine: broken });
    await expect(run.trainer.fit()).rejects.toThrow("update failed");
    await run.close();
  });
});
