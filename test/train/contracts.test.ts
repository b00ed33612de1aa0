// What batches may look like and what models may return: every form of the contracts trains, and whatever could be
// taken for a loss by mistake is refused.

import { trainFromConfig } from "speedtronic";
import type { DataLoader, DataPosition } from "speedtronic/data";
import { initialize, Linear, type ModelInputs, Module, type TrainableModel } from "speedtronic/nn";
import { mean, mul, reshape, sub, sum, type Tensor, type TensorData } from "speedtronic/tensor";
import { describe, expect, it } from "vitest";
import type { AnyBatch, AnyLoader } from "../../src/data/batch-forms.js";
import { traceTraining } from "../../src/train/trace-model.js";
import { recordEvents } from "./helpers.js";

const float = (shape: number[], phase = 0): TensorData => ({
  dtype: "float32",
  shape,
  data: Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, i) => Math.sin(i + phase)),
});
const int = (shape: number[], values: number[]): TensorData => ({
  dtype: "int32",
  shape,
  data: Int32Array.from(values),
});

class Free extends Module {
  readonly layer = new Linear(3, 4);

  constructor(private readonly result: (logits: Tensor, inputs: ModelInputs) => unknown) {
    super();
  }

  forward(first: ModelInputs | Tensor, ...others: Tensor[]): never {
    // A list arrives as arguments.
    const inputs =
      "x" in first ? (first as ModelInputs) : { x: first as Tensor, ...(others[0] && { labels: others[0] }) };
    return this.result(this.layer.forward(inputs.x!), inputs) as never;
  }
}

/** The same batch again and again. */
class Repeating implements Pick<DataLoader, "batchesPerEpoch"> {
  readonly batchesPerEpoch = 1;
  constructor(private readonly batch: unknown) {}
  async next() {
    return { epoch: 0, samples: 2, tokens: 2, targetTokens: 2, batch: this.batch as AnyBatch };
  }
  position(): DataPosition {
    return { epoch: 0, position: 0 };
  }
  seek(): void {}
  async close(): Promise<void> {}
}

async function train(result: (logits: Tensor, inputs: ModelInputs) => unknown, batch: unknown, steps = 8) {
  const model = new Free(result);
  initialize(model, 1);
  const events = recordEvents();
  const loader: AnyLoader = new Repeating(batch);
  await trainFromConfig(
    {
      run: { max_steps: steps, threads: 1 },
      optimizer: { lr: 0.1, weight_decay: 0 },
      scheduler: { name: "constant", warmup_steps: 0 },
      checkpoint: { enabled: false },
    },
    { model: model as unknown as TrainableModel, loader, hooks: [events.hook] },
  );
  return events.of("train_step") as unknown as Record<string, number>[];
}

const rows = { x: float([2, 3]), labels: int([2], [3, 1]) };
const sequence = { x: float([2, 5, 3]), labels: int([2, 5], [0, 1, 2, 3, 0, -100, 1, 1, 2, -100]) };
const shorter = { x: float([2, 5, 3]), labels: int([2, 4], [0, 1, 2, 3, 1, 1, 2, -100]) };
const squares = (logits: Tensor) => mean(mul(logits, logits));

describe("a model may return", () => {
  it.each<[string, unknown, (logits: Tensor, inputs: ModelInputs) => unknown]>([
    ["a scalar", rows, squares],
    ["{ loss }", rows, (logits) => ({ loss: squares(logits) })],
    ["{ logits } of classes beside labels", rows, (logits) => ({ logits })],
    ["{ logits } of positions beside labels", sequence, (logits) => ({ logits })],
    ["{ logits } beside labels for all positions but the last", shorter, (logits) => ({ logits })],
    ["a list that begins with a loss", rows, (logits) => [squares(logits), logits]],
    ["a list that begins with logits of positions", sequence, (logits) => [logits, "more"]],
    [
      "a loss of any shape with a reduction",
      rows,
      (logits) => ({ loss: mul(logits, logits), reduction: "mean" }),
    ],
    [
      "a sum with a count",
      rows,
      (logits) => ({ lossSum: sum(mul(logits, logits)), tokenCount: sum(mul(logits, 0)) }),
    ],
  ])("%s", async (what, batch, result) => {
    const steps = await train(result, batch);
    expect(steps).toHaveLength(8);
    const losses = steps.map(({ loss }) => loss!);
    expect(losses.every(Number.isFinite)).toBe(true);
    if (!what.startsWith("a sum")) expect(losses.at(-1)).toBeLessThan(losses[0]!);
  });

  it("cross-entropy of its logits, where labels of -100 count for nothing", async () => {
    const [{ loss }] = (await train((logits) => ({ logits: mul(logits, 1e-9) }), sequence, 1)) as [
      { loss: number },
    ];
    expect(loss).toBeCloseTo(Math.log(4), 5);
  });

  it("further numbers, which reach the metrics under their names; other tensors stay where they are", async () => {
    const [step] = await train(
      (logits) => ({
        loss: squares(logits),
        aux: sum(logits),
        metrics: { own: mean(logits) },
        hidden: logits,
      }),
      rows,
      1,
    );
    expect(step).toMatchObject({ aux: expect.any(Number), own: expect.any(Number) });
    expect(step!.aux).toBeCloseTo(8 * step!.own!, 5);
    expect("hidden" in step!).toBe(false);
  });
});

describe("a model may not return", () => {
  const refused = (result: (logits: Tensor, inputs: ModelInputs) => unknown, batch: object) => {
    const model = new Free(result);
    try {
      traceTraining(model as unknown as TrainableModel, batch as never);
    } catch (error) {
      return error as { code: string; message: string };
    }
    return undefined;
  };

  it.each<[string, object, (logits: Tensor, inputs: ModelInputs) => unknown, string, RegExp]>([
    [
      "a tensor that is no scalar",
      rows,
      (logits) => logits,
      "model.non_scalar_loss",
      /must be a scalar, got \[2, 4\]/,
    ],
    [
      "a loss that is none",
      rows,
      (logits) => ({ loss: logits }),
      "model.non_scalar_loss",
      /reduction: "mean"/,
    ],
    [
      "another reduction",
      rows,
      (logits) => ({ loss: logits, reduction: "max" }),
      "model.non_scalar_loss",
      /"mean" or "sum", got "max"/,
    ],
    [
      "logits that do not fit the labels",
      sequence,
      (logits) => ({ logits: reshape(logits, [5, 2, 4]) }),
      "model.loss_shape",
      /\[5, 2, 4\] do not fit labels int32 \[2, 5\]/,
    ],
    [
      "a list of logits that do not fit",
      rows,
      (logits) => [reshape(logits, [2, 1, 4])],
      "model.loss_shape",
      /do not fit/,
    ],
    ["a list of rows", rows, (logits) => [logits], "model.non_scalar_loss", /first item of the list/],
    [
      "logits without labels",
      { x: rows.x },
      (logits) => ({ logits }),
      "model.no_loss",
      /gave no loss for inputs x/,
    ],
    ["nothing", rows, () => undefined, "model.wrong_output", /it returned undefined/],
    ["a promise", rows, async () => 1, "model.wrong_output", /must not be async/],
    ["a number", rows, () => ({ loss: 3 }), "model.wrong_output", /loss must be a tensor, got number 3/],
    ["a list of numbers", rows, () => [1, 2], "model.wrong_output", /begins with no tensor/],
  ])("%s", (_, batch, result, code, message) => {
    const error = refused(result, batch);
    expect(error?.code).toBe(code);
    expect(error?.message).toMatch(message);
  });
});

describe("a batch may be", () => {
  const difference = (logits: Tensor) => squares(sub(logits, 1));
  it.each<[string, unknown]>([
    ["a record", rows],
    ["a map", new Map(Object.entries(rows))],
    ["a list, whose items are the arguments", [rows.x, rows.labels]],
    ["one tensor", rows.x],
  ])("%s", async (what, batch) => {
    const steps = await train(difference, batch, 2);
    expect(steps).toHaveLength(2);
    // The labels are used where they are given.
    if (Array.isArray(batch)) {
      const [first] = await train((logits) => ({ logits }), batch, 1);
      expect(first!.loss).toBeGreaterThan(0);
    }
    expect(what).not.toBe("");
  });

  it.each<[string, unknown, RegExp]>([
    ["no record", 3, /the loader gave 3/],
    ["an empty one", {}, /gave none/],
    [
      "a record with something else in it",
      { x: rows.x, names: ["a"] },
      /Field "names" of the batch must be a tensor/,
    ],
  ])("not %s", async (_, batch, message) => {
    await expect(train(difference, batch, 1)).rejects.toMatchObject({
      code: "data.batch_form",
      message: expect.stringMatching(message),
    });
  });
});
