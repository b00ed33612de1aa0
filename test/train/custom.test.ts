// Models and data of one's own through the public API.

import { ConfigError, DataError, registerModel, type SyncCoordinator, trainFromConfig } from "speedtronic";
import type { Dataset, Sample, Tokenizer } from "speedtronic/data";
import {
  crossEntropy,
  Embedding,
  initialize,
  Linear,
  type ModelInputs,
  type ModelOutput,
  Module,
  type TrainableModel,
} from "speedtronic/nn";
import { argmax, cast, equal, mean, reshape } from "speedtronic/tensor";
import { describe, expect, it } from "vitest";
import { buildGpt2Style } from "../../examples/gpt2-style.js";
import { buildMlpClassifier, SpiralLoader } from "../../examples/mlp-classifier.js";
import {
  copyOf,
  equalTensors,
  FormulaDataset,
  localTrainer,
  recordEvents,
  temporaryFolder,
  tinyConfig,
} from "./helpers.js";

/** Predicts the next token from the present one alone. */
class Bigram extends Module implements TrainableModel {
  readonly embedding: Embedding;
  readonly head: Linear;

  constructor(vocab: number, width: number) {
    super();
    this.embedding = new Embedding(vocab, width);
    this.head = new Linear(width, vocab);
  }

  forward({ input_ids, labels }: ModelInputs): ModelOutput {
    const [B, T] = input_ids!.shape as [number, number];
    const logits = reshape(this.head.forward(this.embedding.forward(input_ids!)), [B * T, -1]);
    const flat = reshape(labels!, [B * T]);
    const { lossSum, count } = crossEntropy(logits, flat);
    const accuracy = mean(cast(equal(argmax(logits, -1), flat), "float32"));
    return { lossSum, tokenCount: count, metrics: { accuracy } };
  }
}

registerModel("test_bigram", ({ vocabSize, dModel }) => new Bigram(vocabSize, dModel));

/** Counting upwards: the next token follows from the present one. */
class Counting implements Dataset {
  readonly length = 6;
  reads = 0;

  async get(index: number): Promise<Sample> {
    this.reads += 1;
    const ids = Int32Array.from({ length: 9 }, (_, i) => (3 * index + i) % 16);
    return { inputIds: ids.subarray(0, 8), labels: ids.subarray(1) };
  }

  describe() {
    return { kind: "counting" };
  }
}

describe("a registered model with a dataset", () => {
  it("learns, reports its own metrics, and resumes", async () => {
    const outputDir = temporaryFolder();
    const config = (max_steps: number) =>
      tinyConfig(outputDir, {
        run: { max_steps },
        model: { name: "test_bigram", d_model: 16 },
        optimizer: { lr: 0.05, weight_decay: 0 },
        scheduler: { name: "constant", warmup_steps: 0 },
        checkpoint: { every_steps: 1000 },
      });
    const events = recordEvents();
    const result = await trainFromConfig(config(60), { dataset: new Counting(), hooks: [events.hook] });
    expect(result).toMatchObject({ steps: 60, samples: 120, tokens: 960 });
    expect(result.finalLoss).toBeLessThan(0.1);
    const accuracies = events
      .of("train_step")
      .map((step) => (step as unknown as { accuracy: number }).accuracy);
    expect(accuracies.at(-1)).toBe(1);
    expect(accuracies[0]).toBeLessThan(0.5);
    expect(events.of("train_start")[0]).toMatchObject({ model: "test_bigram", parameters: 16 * 16 * 2 + 16 });
    const more = await trainFromConfig(config(61), { dataset: new Counting(), resume: true });
    expect(more).toMatchObject({ steps: 61, finalLoss: expect.closeTo(result.finalLoss!, 2) });
  });

  it("is refused by name where it is not registered", async () => {
    await expect(
      trainFromConfig(tinyConfig(temporaryFolder(), { model: { name: "test_bigran" } })),
    ).rejects.toThrow(/unknown model "test_bigran" \(did you mean "test_bigram"\?\)/);
  });
});

describe("a schedule handed over", () => {
  const config = (outputDir: string, max_steps: number) =>
    tinyConfig(outputDir, { run: { max_steps }, scheduler: { name: "linear" } });

  it("gives the rate of every update, also after a resume, and the scheduler section is said to be unused", async () => {
    const outputDir = temporaryFolder();
    const schedule = (done: number) => 1 / (done + 2);
    const events = recordEvents();
    const options = { schedule, hooks: [events.hook] };
    await trainFromConfig(config(outputDir, 2), options);
    await trainFromConfig(config(outputDir, 4), { ...options, resume: true });
    expect(events.of("train_step").map(({ lr }) => lr)).toEqual([2, 3, 4, 5].map((n) => 1e-2 * (1 / n)));
    expect(events.of("warning").map(({ message }) => message)).toContain(
      "scheduler: not used: the program hands over a schedule of its own",
    );
  });

  it("is refused when it is no function, and stopped when it gives no factor", async () => {
    const train = (schedule: unknown) =>
      trainFromConfig(config(temporaryFolder(), 4), { schedule: schedule as (done: number) => number });
    await expect(train("cosine")).rejects.toMatchObject({ code: "train.not_a_schedule" });
    for (const broken of [Number.NaN, -0.5, Number.POSITIVE_INFINITY, undefined])
      await expect(train((done: number) => (done < 2 ? 1 : broken))).rejects.toMatchObject({
        code: "schedule.not_a_factor",
        message: expect.stringContaining("for the update after 2;"),
      });
  });
});

describe("a model handed over", () => {
  it("is trained from the values that it has, and has the new ones afterwards", async () => {
    const model = new Bigram(16, 4);
    initialize(model, 3);
    model.head.bias!.trainable = false;
    const before = copyOf(model.stateDict());
    const config = tinyConfig(temporaryFolder(), { run: { max_steps: 2 } });
    const events = recordEvents();
    await trainFromConfig(config, { model, dataset: new Counting(), hooks: [events.hook] });
    expect(equalTensors(model.stateDict(), before)).toEqual(["head.bias"]);
    expect(events.of("train_step")[0]!.loss).toBeCloseTo(Math.log(16), 0);
  });

  it("has its values back even when there was nothing to do", async () => {
    const outputDir = temporaryFolder();
    const first = new Bigram(16, 4);
    initialize(first, 3);
    const config = tinyConfig(outputDir, { run: { max_steps: 2 } });
    await trainFromConfig(config, { model: first, dataset: new Counting() });
    const second = new Bigram(16, 4);
    const result = await trainFromConfig(config, { model: second, dataset: new Counting(), resume: true });
    expect(result.finalLoss).toBeNull();
    expect(second.stateDict()).toEqual(first.stateDict());
  });

  it("must have something to train", async () => {
    const model = new Bigram(16, 4);
    for (const parameter of model.namedParameters().values()) parameter.trainable = false;
    const attempt = trainFromConfig(tinyConfig(temporaryFolder()), { model });
    await expect(attempt).rejects.toThrow(ConfigError);
    await expect(attempt).rejects.toMatchObject({ code: "train.nothing_to_train" });
  });
});

describe("data handed over", () => {
  it("is checked against the vocabulary before it reaches a kernel", async () => {
    const attempt = trainFromConfig(tinyConfig(temporaryFolder(), { model: { vocab_size: 12 } }), {
      dataset: new Counting(),
    });
    await expect(attempt).rejects.toThrow(DataError);
    await expect(attempt).rejects.toMatchObject({ code: "data.id_out_of_range" });
  });

  it("may have samples of all lengths, padded with a mask", async () => {
    const dataset = new FormulaDataset(12, [3, 8, 1, 5], 16);
    const config = tinyConfig(temporaryFolder(), {
      run: { max_steps: 3 },
      data: { micro_batch_size: 2, target_batch_size: 4 },
    });
    const events = recordEvents();
    const result = await trainFromConfig(config, { dataset, hooks: [events.hook] });
    expect(result).toMatchObject({ steps: 3, samples: 12, tokens: 3 * 17 });
    expect(events.of("train_step").map(({ target_tokens }) => target_tokens)).toEqual([17, 17, 17]);
  });

  it("can come with a tokenizer", async () => {
    const letters: Tokenizer = {
      vocabSize: 4,
      encode: (text) => Int32Array.from(text, (c) => "abc".indexOf(c) + 1),
      decode: (ids) => Array.from(ids, (id) => "?abc"[id]).join(""),
      decoder: () => ({ push: (id) => "?abc"[id]!, end: () => "" }),
    };
    const events = recordEvents();
    const config = tinyConfig(temporaryFolder(), {
      model: { vocab_size: 4 },
      sampling: { at_end: true, prompt: "ab", max_new_tokens: 5 },
    });
    const dataset = new FormulaDataset(12, [8], 4);
    await trainFromConfig(config, { tokenizer: letters, dataset, hooks: [events.hook] });
    expect(events.of("sample")).toMatchObject([
      { step: 4, prompt: "ab", text: expect.stringMatching(/^[?abc]{5}$/) },
    ]);
  });
});

describe("a coordinator handed over", () => {
  it("takes part in a run of the public API", async () => {
    const calls: string[] = [];
    const coordinator: SyncCoordinator = {
      start: ({ step }) => void calls.push(`start ${step}`),
      afterOptimizerStep: (_, step) => void calls.push(`step ${step}`) as undefined,
      stop: () => void calls.push("stop"),
      stateDict: () => ({ rounds: calls.length }),
      loadStateDict: (state) => void calls.push(JSON.stringify(state)),
    };
    const outputDir = temporaryFolder();
    await trainFromConfig(tinyConfig(outputDir, { run: { max_steps: 2 } }), { coordinator });
    await trainFromConfig(tinyConfig(outputDir, { run: { max_steps: 3 } }), { coordinator, resume: true });
    expect(calls).toEqual([
      "start 0",
      "step 1",
      "step 2",
      "stop",
      "start 2",
      '{"rounds":3}',
      "step 3",
      "stop",
    ]);
  });
});

describe("the examples", () => {
  it("mlp-classifier trains with the trainer", async () => {
    const model = buildMlpClassifier({ hidden: 16 });
    initialize(model, 1);
    const before = copyOf(model.stateDict());
    const events = recordEvents();
    const run = await localTrainer({
      model,
      loader: new SpiralLoader({ samples: 128, batchSize: 64 }),
      maxSteps: 150,
      lr: 0.02,
      events,
    });
    const result = await run.trainer.fit();
    expect(result.finalLoss).toBeLessThan(0.3);
    expect(result).toMatchObject({ samples: 150 * 64 });
    expect(events.of("train_step").at(-1)).toMatchObject({ accuracy: expect.closeTo(1, 0), epoch: 74 });
    expect(equalTensors(model.stateDict(), before)).toEqual([]);
    await run.close();
  });

  it("gpt2-style trains with the trainer", async () => {
    const model = buildGpt2Style({ vocabSize: 13, blockSize: 8, nLayer: 2, nHead: 2, dModel: 8, dFf: 16 });
    initialize(model, 1);
    const before = copyOf(model.stateDict());
    const run = await localTrainer({ model, maxSteps: 60, lr: 0.02, batchSize: 4 });
    const result = await run.trainer.fit();
    expect(result.finalLoss).toBeLessThan(1.5);
    expect(equalTensors(model.stateDict(), before)).toEqual([]);
    await run.close();
  });
});
